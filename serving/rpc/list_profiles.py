"""ListProfiles: writes the profiles with their definitions."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.json_format import ParseDict

from serving.config.profiles import ProfileBook
from serving.domain.ranking.reachability import notes
from trivium.v1 import retrieval_service_pb2 as retrieval_pb


def from_profiles(
    profiles: ProfileBook, names: Sequence[str], next_page_token: str
) -> retrieval_pb.ListProfilesResponse:
    """Writes a page of the profiles."""
    response = retrieval_pb.ListProfilesResponse(next_page_token=next_page_token)
    for name in names:
        profile = profiles[name]
        message = response.profiles.add(name=name, description=profile.description)
        ParseDict(profiles.definition(name), message.definition)
        for leg, text in notes(profile):
            message.notes.add(leg=leg, text=text)
    return response
