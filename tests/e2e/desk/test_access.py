"""A desk whose callers need keys, and whose stores and extractor have secrets of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from serving.__main__ import main
from tests.clients.mcp.test_transports import called, served
from tests.fakes.simulation.openai_api import (
    CompletionsServer,
    answered,
    completion,
    giving,
    proposed,
    serving_in_a_thread,
)
from tests.fixtures.postgres import fresh_database
from tests.fixtures.service import PASSWORD, Service, started_service
from tests.support.processes import command_lines
from tests.support.waiting import until
from trivium import Client, Segment
from trivium.errors import AuthenticationError, UnavailableError

pytestmark = pytest.mark.release

REVOKED_WITHIN_S = 5.0
"""As docs/operating.md promises."""

API_KEY = "key-of-the-extractor"

SETTINGS = {
    "TRIVIUM_AUTH__KEYS": "true",
    "TRIVIUM_NEO4J__PASSWORD": PASSWORD,
    "TRIVIUM_EXTRACTION__API__MODEL": "some-model",
    "TRIVIUM_EXTRACTION__API__KEY": API_KEY,
}


@dataclass(frozen=True, slots=True)
class GuardedDesk:
    """The desk, its extractor, and the address of its PostgreSQL with the password."""

    service: Service
    extractor: CompletionsServer
    dsn: str

    def keys(self, *arguments: str) -> str:
        env = {"TRIVIUM_POSTGRES__DSN": self.dsn}
        done = CliRunner().invoke(main, ["keys", *arguments], env=env)
        assert done.exit_code == 0, done.output
        return done.output.strip()

    def answers(self, key: str) -> bool:
        """Whether a caller with this key alone gets an answer."""
        with Client(self.service.address, token=key, timeout=30) as memory:
            try:
                memory.retrieve("Anyone there?")
            except (AuthenticationError, UnavailableError):
                return False
            return True


@pytest.fixture(scope="module")
def desk(postgres_server: str) -> Iterator[GuardedDesk]:
    with (
        fresh_database(postgres_server) as address,
        serving_in_a_thread(CompletionsServer()) as extractor,
    ):
        dsn = make_conninfo(address, password=PASSWORD)
        of_this_run = {"TRIVIUM_POSTGRES__DSN": dsn, "TRIVIUM_EXTRACTION__API__URL": extractor.url}
        with started_service("single", **SETTINGS, **of_this_run) as service:
            yield GuardedDesk(service, extractor, dsn)


def test_revoked_key_is_rejected_within_5_s(desk: GuardedDesk) -> None:
    assert not desk.answers("")
    key = desk.keys("create", "--tenant", "acme", "--role", "reader")
    until(lambda: desk.answers(key))

    desk.keys("revoke", key.split("_")[1])

    until(lambda: not desk.answers(key), timeout_s=REVOKED_WITHIN_S)


def test_no_command_line_shows_a_password_or_a_key(desk: GuardedDesk) -> None:
    key = desk.keys("create", "--tenant", "acme", "--role", "admin")
    until(lambda: desk.answers(key))

    lines = command_lines(desk.service.process.pid)

    assert any("ServeReplica" in line for line in lines), "the replica is not looked at"
    hidden = (PASSWORD, API_KEY, key.split("_", maxsplit=2)[2], desk.service.token)
    assert [line for line in lines if any(each in line for each in hidden)] == []


def test_mcp_caller_has_the_memory_of_its_key(desk: GuardedDesk) -> None:
    nora, idris = (desk.keys("create", "--tenant", name, "--role", "admin") for name in "ni")
    until(lambda: desk.answers(nora) and desk.answers(idris))

    async def told_and_asked(url: str) -> list[str]:
        await called(url, nora, "remember", text="The wedding is on the eighth of May.")
        return [
            await called(url, key, "recall", query="When is the wedding?")
            for key in (nora, idris, "", "trv_unknown_key")
        ]

    with served(desk.service) as url:
        texts = asyncio.run(told_and_asked(url))

    assert ["eighth of May" in text for text in texts] == [True, False, False, False]


def test_turns_become_facts_by_the_extractor(desk: GuardedDesk) -> None:
    fact = proposed(subject="Mara", object="Lisbon", sentence="Mara lives in Lisbon.")
    desk.extractor.selected = "Lisbon"
    desk.extractor.answer = giving(completion(answered(fact)))
    key = desk.keys("create", "--tenant", "talk", "--role", "admin")
    until(lambda: desk.answers(key))

    with Client(desk.service.address, token=key, timeout=30) as memory:
        memory.ingest(
            [
                Segment(id="t1", speaker="Mara", session="s", text="I live in Lisbon."),
                Segment(id="t2", speaker="Mara", session="s", text="My PIN is 1.", sensitive=True),
            ]
        )
        until(lambda: len(list(memory.list_facts())) == 1)

        [stored] = memory.list_facts()
        assert stored.sentence == "Mara lives in Lisbon."
        assert tuple(stored.evidence) == ("t1",)
        assert stored.id.startswith("extracted:")
        until(lambda: "extraction" in {each.projection for each in memory.stats().projections})
        assert not memory.stats().dead_letters
    assert desk.extractor.keys[-1] == f"Bearer {API_KEY}"
    assert "PIN" not in str(desk.extractor.bodies)
