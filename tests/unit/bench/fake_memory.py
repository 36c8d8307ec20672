"""A set as it is on disk, and a service that finds all of a tenant, in the order of writing."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import ParseDict

from tests.fakes.service import FakeService
from trivium.v1 import catalog_service_pb2, ingest_service_pb2, retrieval_service_pb2, segment_pb2

LEGS = ("lexical", "dense", "facts", "graph")
BRIEFED = 2
"""How many hits have room in a block for a prompt."""


def written_set(folder: Path, qrels: str, **files: Iterable[object]) -> Path:
    """Writes the files of a set: lines of JSON by name, and judgments."""
    folder.mkdir()
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "qrels.tsv").write_text(qrels)
    return folder


class FakeMemory(FakeService):
    """Remembers segments by tenant, and has one profile, of all legs.

    A question that begins with "Fail" fails.
    """

    def __init__(self) -> None:
        super().__init__()
        self.segments: defaultdict[str, list[segment_pb2.Segment]] = defaultdict(list)
        self.forgets = False
        """Whether it finds nothing any more."""

    def Ingest(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = ingest_service_pb2.IngestResponse(consistency_token=f"after-{request.tenant}")
        for index, item in enumerate(request.items):
            if item.WhichOneof("item") == "segment":
                self.segments[request.tenant].append(item.segment)
            response.outcomes.add(index=index, state=ingest_service_pb2.ITEM_STATE_CREATED)
        return response

    def IngestStream(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        for request in request_iterator:
            self.Ingest(request, context)
        return ingest_service_pb2.IngestStreamResponse()

    def Retrieve(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.query.startswith("Fail"):
            context.abort(grpc.StatusCode.INTERNAL, "broken")
        response = retrieval_service_pb2.RetrieveResponse()
        for leg in LEGS:
            response.leg_reports.add(leg=leg, state=retrieval_service_pb2.LEG_STATE_OK)
        if not self.forgets:
            for rank, segment in enumerate(self.segments[request.tenant], start=1):
                response.hits.add(segment=segment, rank=rank)
        if request.HasField("briefing"):
            lines = [f"- {hit.segment.text}" for hit in response.hits[:BRIEFED]]
            response.briefing = "\n".join(["<memory>", *lines, "</memory>"]) if lines else ""
        return response

    def ListProfiles(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = retrieval_service_pb2.ListProfilesResponse()
        legs = {leg: {"weight": 1.0} for leg in LEGS}
        ParseDict({"legs": legs}, response.profiles.add(name="default").definition)
        return response

    def Forget(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.segments.pop(request.tenant, None)
        return ingest_service_pb2.ForgetResponse()

    def GetStats(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = catalog_service_pb2.GetStatsResponse()
        response.tenant.segment_count = len(self.segments[request.tenant])
        response.index.vector_count = sum(map(len, self.segments.values()))
        response.service.dimension = 4
        response.projections.add(projection="embedding")
        return response
