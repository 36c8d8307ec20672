"""Answers queries, as long as the service is not too busy."""

from __future__ import annotations

from collections import defaultdict

from serving.domain.budget import Deadline
from serving.domain.items.records import ItemId, TenantName
from serving.domain.questions.query import Query
from serving.domain.ranking.profile import Profile
from serving.pipeline.retrieval.admission import Admission
from serving.pipeline.retrieval.leg_runner import LegReport
from serving.pipeline.retrieval.several import ask_several
from serving.pipeline.retrieval.steps import Retrieval, RetrievalSteps, Traced
from serving.ports.access_log import AccessLog


class Retriever:
    """Answers admitted queries."""

    def __init__(
        self, steps: RetrievalSteps, access: AccessLog, admission: Admission | None = None
    ) -> None:
        self._steps = steps
        self._access = access
        self._admission = admission or Admission()

    async def retrieve(self, query: Query, profile: Profile, deadline: Deadline) -> Retrieval:
        """Answers from the legs that answer in time, and records that the hits were shown.

        Raises as `Admission.admitted` and `RetrievalSteps.run`.
        """
        retrieval = await self.preview(query, profile, deadline)
        self.record_access(query, retrieval)
        return retrieval

    async def preview(self, query: Query, profile: Profile, deadline: Deadline) -> Retrieval:
        """Answers like `retrieve`, without recording accesses, which change later answers."""
        if query.tenants:
            return await ask_several(self._ask, query, profile, deadline)
        return (await self._ask(query, profile, deadline)).retrieval

    async def _ask(self, query: Query, profile: Profile, deadline: Deadline) -> Traced:
        """Asks one tenant."""
        tenant = query.scope.tenant
        with self._admission.admitted(tenant, profile, deadline, query.required) as shed:
            return await self._steps.run(query, profile, deadline, shed=shed)

    def record_access(self, query: Query, retrieval: Retrieval) -> None:
        """Records that the hits of a preview were shown."""
        shown = defaultdict[TenantName, list[ItemId]](list)
        for hit in retrieval.hits:
            shown[TenantName(hit.tenant) or query.scope.tenant].append(hit.item.item)
        for tenant, items in shown.items():
            self._access.record(tenant, items)

    async def warm(self, query: Query, profile: Profile, deadline: Deadline) -> list[LegReport]:
        """Runs the legs without an answer, and reports each; in the profile's order.

        Raises as `Admission.admitted` and `RetrievalSteps.run_legs`.
        """
        with self._admission.admitted(query.scope.tenant, profile, deadline) as shed:
            results = await self._steps.run_legs(query, profile, deadline, shed)
        return [result.report for result in results]
