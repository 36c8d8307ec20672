"""A service that ranks as ours does, over lists that it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from bench.quality.tune.coordinates import Definition
from serving.domain.items.records import Segment
from serving.rpc.answers import from_profiles
from serving.rpc.items import from_segment
from tests.support.builders import TENANT
from tests.unit.bench.quality.fake_memory import FakeMemory
from tests.unit.bench.quality.tune.listed_service import ListedService, Scores
from trivium.v1 import catalog_service_pb2


class Ranking(FakeMemory):
    """Answers every question from the same lists, by the profiles that it has.

    A request without changes is answered by another the first `misleading` times.
    """

    def __init__(
        self,
        definition: Definition,
        rows: Sequence[Segment],
        lists: Mapping[str, Scores],
        *,
        misleading: int = 0,
    ) -> None:
        super().__init__()
        self._rows = rows
        self._ranked = ListedService(rows, lists, definition=definition)
        self._misleading = misleading

    def Retrieve(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append(request)
        request.tenant, request.consistency_token = TENANT, ""
        if self._misleading and not request.profile_overrides.fields:
            self._misleading -= 1
            request.profile_overrides.update({"legs": {"lexical": {"weight": 0.01}}})
        return asyncio.run(self._ranked.retrieve(request))

    def ListProfiles(self, request: Any, context: Any) -> Any:  # noqa: N802
        return from_profiles(self._ranked.book, sorted(self._ranked.book), "")

    def ListSegments(self, request: Any, context: Any) -> Any:  # noqa: N802
        return catalog_service_pb2.ListSegmentsResponse(segments=map(from_segment, self._rows))

    def GetStats(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = catalog_service_pb2.GetStatsResponse()
        response.tenant.segment_count = len(self.segments[request.tenant])
        response.projections.add(projection="embedding")
        return response
