"""One run: callers work, faults happen, and after every few of them all stores are compared."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.harness.results import Json, Result
from tests.chaos.checker import Finding, Kind, Write, check
from tests.chaos.desk import Desk
from tests.chaos.faults import Fault, inject
from tests.chaos.items import Group, ItemName
from tests.chaos.stores import read_stores
from tests.chaos.workload import GROUPS, TENANTS, Workload, erase
from trivium import AsyncClient
from trivium.errors import TriviumError

ROUNDS_BETWEEN_CHECKS = 10
BEFORE_A_FAULT_S = (0.0, 1.5)
ACKNOWLEDGED_AFTER_A_FAULT = 8
"""Operations; a write that had to wait for the fault to end is most probably one of them."""
HEALED_WITHIN_S = 600.0
"""A Neo4j that was killed needs minutes where other programs take the cores."""
QUESTION_TIMEOUT_S = 5.0
ERASURE_TIMEOUT_S = 60.0

Report = Callable[[str], None]


class NotHealedError(Exception):
    """The service was not whole again in time."""


@dataclass(slots=True)
class Outcome:
    """What a run did and found."""

    placement: str
    seed: int
    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    rows: int = 0
    """Rows that were compared, of all stores and checks."""
    seconds: float = 0.0
    writes: list[Write] = field(default_factory=list)
    reads: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @property
    def acknowledged(self) -> int:
        """Writes and erasures that were acknowledged."""
        return sum(write.acknowledged for write in self.writes)

    def result(self) -> Result:
        """The figures, as those of a benchmark."""
        kinds = [finding.kind for finding in self.findings]
        measured: dict[str, Json] = {
            "seconds": round(self.seconds),
            "faults": dict(self.faults),
            "operations": len(self.writes) + self.reads,
            "acknowledged": self.acknowledged,
            "retried": sum(write.attempts > 1 for write in self.writes if write.acknowledged),
            "given_up": len(self.writes) - self.acknowledged,
            "answers": self.reads,
            "checks": self.checks,
            "rows": self.rows,
            **{kind.name.lower(): kinds.count(kind) for kind in Kind},
        }
        return Result(
            scenario="chaos",
            parameters={"placement": self.placement, "seed": self.seed},
            n=self.rounds,
            errors=dict(self.failures),
            measured=measured,
        )


async def run(
    desk: Desk, faults: Sequence[Fault], placement: str, seed: int, report: Report
) -> Outcome:
    """Lets the faults happen one after the other; ends at the first check that finds something."""
    rng = random.Random(seed)
    outcome = Outcome(placement=placement, seed=seed)
    workload = Workload(desk.address, desk.http, seed)
    began = time.monotonic()
    for start in range(0, len(faults), ROUNDS_BETWEEN_CHECKS):
        async with workload.running():
            for fault in faults[start : start + ROUNDS_BETWEEN_CHECKS]:
                await asyncio.sleep(rng.uniform(*BEFORE_A_FAULT_S))
                await inject(fault, desk, rng)
                await workload.until_acknowledged(ACKNOWLEDGED_AFTER_A_FAULT)
                outcome.rounds += 1
                outcome.faults[fault.name] += 1
                report(
                    f"round {outcome.rounds} of {len(faults)}: {fault.name}; "
                    f"{workload.acknowledged} writes acknowledged, "
                    f"{workload.failures.total()} attempts failed"
                )
        report(await _check(desk, workload, outcome))
        outcome.seconds = time.monotonic() - began
        if outcome.findings:
            break
    outcome.writes, outcome.failures = workload.writes, workload.failures
    return outcome


async def _check(desk: Desk, workload: Workload, outcome: Outcome) -> str:
    """Compares everything, when every part is back and has seen every write."""
    async with AsyncClient(desk.address, tenant=TENANTS[0], timeout=QUESTION_TIMEOUT_S) as client:
        took = await _healed(client)
        stores = await read_stores(desk, client)
        outcome.findings = [
            *check(workload.writes, workload.reads, stores),
            *await _erased_again(client, workload.writes, {row.item for row in stores["postgres"]}),
        ]
    rows = sum(map(len, stores.values()))
    outcome.checks += 1
    outcome.rows += rows
    outcome.reads += len(workload.reads)
    workload.reads.clear()
    return f"  whole after {took:.1f} s; {rows} rows compared, {len(outcome.findings)} findings"


async def _healed(client: AsyncClient) -> float:
    """Waits until all legs answer and the projections are done; returns the seconds."""
    began = time.monotonic()
    lacking = ""
    while time.monotonic() < began + HEALED_WITHIN_S:
        lacking = await _lacking(client)
        if not lacking:
            return time.monotonic() - began
        await asyncio.sleep(0.1)
    raise NotHealedError(f"after {HEALED_WITHIN_S:g} s: {lacking}")


async def _lacking(client: AsyncClient) -> str:
    """What is not as it should be; empty if nothing is."""
    try:
        stats = await client.stats()
        answers = [
            await client.for_tenant(each).retrieve("What has a harbour?") for each in TENANTS
        ]
    except TriviumError as error:
        return str(error)
    pending = [
        f"{each.projection}: {each.pending_count} rows pending"
        for each in stats.projections
        if each.pending_count
    ]
    legs = [
        f"{report.leg}: {report.state}, {report.reason}"
        for answer in answers
        for report in answer.leg_reports
        if report.state.value != "ok" or report.pending_count
    ]
    return "; ".join([*stats.service.degraded, *pending, *legs])


async def _erased_again(
    client: AsyncClient, writes: Sequence[Write], stored: set[ItemName]
) -> list[Finding]:
    """Repeats the erasure of all that is not there; every store must confirm it."""
    erased: defaultdict[str, list[Group]] = defaultdict(list)
    for group in {write.group for write in writes} & set(GROUPS):
        if group.item("a") not in stored:
            erased[group.tenant].append(group)
    return [
        Finding(Kind.UNVERIFIED, receipt.store, groups[0].item("a"), receipt.reason)
        for tenant, groups in erased.items()
        for receipt in (await erase(client.for_tenant(tenant), groups, ERASURE_TIMEOUT_S)).receipts
        if receipt.remaining_count or not receipt.verified
    ]
