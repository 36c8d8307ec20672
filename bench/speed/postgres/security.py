"""Measures what authentication and row-level security cost an answer, in CPU time.

`python -m bench.speed.postgres.security` starts a PostgreSQL of its own with two databases of the
same rows. On one side callers authenticate, and statements run under row-level security. On the
other side everything is open, and callers may not use the role that the policies hold for. Both
sides check the caller, search by words and read ten rows, alternately, so that other load on the
machine affects both equally.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click
import jwt
import psutil
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from bench.harness.results import RESULTS, Result, append_record, run_folder
from bench.quality.scoring.intervals import mean_interval, paired_difference
from bench.reports.environment import describe
from bench.speed.postgres.access import BATCH, PATIENCE_S, segments
from bench.speed.postgres.databases import two_databases
from bench.speed.postgres.figures import security_table
from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.migrations import migrate
from serving.adapters.postgres.connection.row_security import CALLER_ROLE
from serving.domain.budget import Deadline
from serving.domain.identity import AccessKey, KeyText, Role, hash_of_secret
from serving.domain.items.records import TenantName
from serving.domain.questions.query import Query, Scope
from serving.domain.ranking.leg_options import WordsSearch
from serving.rpc.identity.access import OPEN, Access, within_tenants
from serving.rpc.identity.key_ring import KeyRing
from serving.rpc.identity.rules import RULES
from serving.rpc.identity.web_tokens import TokenRules, WebTokens
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

SCENARIO = "security"
TENANTS = [TenantName("first"), TenantName("second")]
SEGMENTS = 20_000
"""Of each tenant."""
QUESTIONS = 100
"""In a round."""
WORDS_A_QUESTION = 6
DEPTH = 50
SHOWN = 10
WARM_UP = 2
WITH, WITHOUT = "secured", "plain"
METHOD = "Retrieve"


class Call:
    """The metadata of a call in clear text."""

    def __init__(self, credentials: str) -> None:
        self._metadata = [("authorization", f"Bearer {credentials}")] if credentials else []

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        """The credentials."""
        return self._metadata

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class Side:
    """A database, and who may ask it; without credentials, anyone."""

    adapters: Postgres
    access: Access = OPEN
    credentials: Mapping[TenantName, str] = field(default_factory=dict)
    refresh: Callable[[], Awaitable[None]] | None = None

    def admitted(self, tenant: TenantName, question: str) -> RetrieveRequest:
        """The request of a tenant after its caller was checked."""
        credentials = self.credentials.get(tenant, "")
        request = RetrieveRequest(query=question, tenant="" if credentials else tenant)
        caller = self.access.caller_of(METHOD, Call(credentials))
        within_tenants(RULES[METHOD], caller, request)
        return request


async def with_keys(adapters: Postgres) -> Side:
    """Callers with a key for their tenant."""
    texts = {tenant: KeyText.new() for tenant in TENANTS}
    for tenant, text in texts.items():
        await adapters.access_keys.add(
            AccessKey(
                id=text.id,
                secret_hash=hash_of_secret(text.secret),
                roles=frozenset({Role.READER}),
                tenant=tenant,
                created_at=datetime.now(UTC),
            )
        )
    ring = KeyRing(adapters.access_keys)
    credentials = {tenant: str(text) for tenant, text in texts.items()}
    return Side(adapters, Access(keys=ring.verify), credentials, ring.refresh)


async def with_tokens(adapters: Postgres) -> Side:
    """Callers with a JSON Web Token for their tenant."""
    private = generate_private_key(SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    key_set = json.dumps({"keys": [{**public, "kid": "1", "alg": "ES256"}]}).encode()
    rules = TokenRules(issuer="i", audience="a", tenant_claim="tenant", roles_claim="roles")
    expires = int(time.time()) + 24 * 3600
    claims = {"iss": "i", "aud": "a", "exp": expires, "roles": "reader"}
    credentials = {
        tenant: jwt.encode({**claims, "tenant": tenant}, private, "ES256", headers={"kid": "1"})
        for tenant in TENANTS
    }
    tokens = WebTokens("", rules, read=lambda _: key_set)
    return Side(adapters, Access(tokens=tokens.verify), credentials, tokens.refresh)


async def ask(side: Side, tenants: Sequence[TenantName]) -> None:
    """Asks questions of the tenants in turn, and reads the rows of the first hits."""
    draw = random.Random(3)
    if side.refresh is not None:
        await side.refresh()  # more often than the service does
    for place in range(QUESTIONS):
        words = (f"w{int(2000 * draw.random() ** 3)}" for _ in range(WORDS_A_QUESTION))
        request = side.admitted(tenants[place % len(tenants)], " ".join(words))
        tenant = TenantName(request.tenant)
        deadline = Deadline.after(PATIENCE_S)
        query = Query(scope=Scope(tenant=tenant, as_of=datetime.now(UTC)), text=request.query)
        found = await side.adapters.lexical.search(query, WordsSearch(), DEPTH, 0, deadline)
        await side.adapters.store.load(tenant, [each.item for each in found[:SHOWN]], deadline)


def cpu_s() -> float:
    """The CPU time of this process and of all servers that it has started."""
    mine = os.times()
    servers = psutil.Process().children(recursive=True)
    times = [each.cpu_times() for each in servers]
    return mine.user + mine.system + sum(each.user + each.system for each in times)


async def measure(dsns: Mapping[str, str], rounds: int) -> list[Result]:
    """CPU milliseconds per question, for each kind of callers."""
    async with AsyncExitStack() as stack:
        # One connection, so that two tenants in turn are always another's.
        secured, plain = [
            await stack.enter_async_context(Postgres(dsns[name], search_connections=1))
            for name in (WITH, WITHOUT)
        ]
        keys, tokens = await with_keys(secured), await with_tokens(secured)
        callers = {
            "keys, one tenant": (keys, TENANTS[:1]),
            "tokens, one tenant": (tokens, TENANTS[:1]),
            "keys, two tenants in turn": (keys, TENANTS),
        }
        spent = {who: {WITH: list[float](), WITHOUT: list[float]()} for who in callers}
        for round_ in range(WARM_UP + rounds):
            for who, (side, tenants) in callers.items():
                sides = {WITH: side, WITHOUT: Side(plain)}
                for name in sorted(sides, reverse=bool(round_ % 2)):
                    started = cpu_s()
                    await ask(sides[name], tenants)
                    if round_ >= WARM_UP:
                        spent[who][name].append((cpu_s() - started) / QUESTIONS * 1e3)
    return [_result(who, of[WITH], of[WITHOUT]) for who, of in spent.items()]


def _result(who: str, secured: Sequence[float], plain: Sequence[float]) -> Result:
    cost = paired_difference(secured, plain)
    return Result(
        scenario=SCENARIO,
        parameters={"callers": who},
        n=len(secured) * QUESTIONS,
        measured={
            "cpu_ms_with": mean_interval(secured).mean,
            "cpu_ms_without": mean_interval(plain).mean,
            "cost_ms": cost.as_record(),
        },
    )


async def _fill(dsn: str) -> None:
    await migrate(dsn)
    made = list(segments(SEGMENTS))
    async with Postgres(dsn) as adapters:
        for tenant in TENANTS:
            for start in range(0, len(made), BATCH):
                await adapters.store.write(tenant, made[start : start + BATCH])


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=30, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=RESULTS)
def main(rounds: int, out: Path) -> None:
    """Measure what authentication and row-level security cost an answer."""
    folder, about = run_folder("security", out), describe()
    click.echo(f"2 tenants of {SEGMENTS} segments, {rounds} rounds", err=True)
    closed_to_callers = f"REVOKE SELECT ON segment FROM {CALLER_ROLE}"
    with two_databases(WITH, WITHOUT, _fill, closed_to_callers) as dsns:
        results = asyncio.run(measure(dsns, rounds))
    folder.mkdir(parents=True)
    records = [result.as_record(about) for result in results]
    for record in records:
        append_record(folder, record)
    click.echo(security_table(records))
    click.echo(f"results: {folder}", err=True)


if __name__ == "__main__":
    main()
