"""A service that finds everything that was written for a tenant, in the order of writing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.fakes.service import FakeService
from trivium.v1 import catalog_service_pb2, ingest_service_pb2, retrieval_service_pb2, segment_pb2

LEGS = ("lexical", "dense", "facts", "graph")
BRIEFED = 2
"""How many hits have room in a block for a prompt."""


class FakeMemory(FakeService):
    """Remembers segments by tenant, and has one profile, of all legs.

    A question that begins with "Fail" fails.
    """

    def __init__(self) -> None:
        super().__init__()
        self.segments: defaultdict[str, list[segment_pb2.Segment]] = defaultdict(list)
        self.written: list[tuple[str, int]] = []
        self.requests: list[retrieval_service_pb2.RetrieveRequest] = []
        self.forgets = False
        """Whether it finds nothing any more."""

    def Ingest(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = ingest_service_pb2.IngestResponse(consistency_token=f"after-{request.tenant}")
        for index, item in enumerate(request.items):
            if item.WhichOneof("item") == "segment":
                self.segments[request.tenant].append(item.segment)
            response.outcomes.add(index=index, state=ingest_service_pb2.ITEM_STATE_CREATED)
        self.written.append((request.tenant, len(request.items)))
        return response

    def IngestStream(self, request_iterator: Any, context: Any) -> Any:  # noqa: N802
        for request in request_iterator:
            self.Ingest(request, context)
        return ingest_service_pb2.IngestStreamResponse()

    def Retrieve(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        if request.query.startswith("Fail"):
            context.abort(grpc.StatusCode.INTERNAL, "broken")
        response = retrieval_service_pb2.RetrieveResponse()
        off = {override.leg for override in request.leg_overrides if override.weight == 0}
        changed = MessageToDict(request.profile_overrides).get("legs", {})
        off |= {leg for leg, change in changed.items() if change.get("weight") == 0}
        for leg in LEGS:
            state = "SKIPPED" if leg in off else "OK"
            number = retrieval_service_pb2.LegState.Value(f"LEG_STATE_{state}")
            response.leg_reports.add(leg=leg, state=number)
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
        response.tenant.SetInParent()
        response.projections.add(projection="embedding")
        return response
