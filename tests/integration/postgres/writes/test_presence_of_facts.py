"""Whether a tenant has facts, which a process remembers until it hears of a write."""

from __future__ import annotations

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.notifications import Notifications
from serving.adapters.postgres.words.known_names import KnownNames
from serving.adapters.postgres.writes.memory_store import PostgresMemoryStore
from serving.domain.budget import Deadline
from tests.support.builders import TENANT, batch_of, fact, segment

pytestmark = pytest.mark.postgres


async def test_token_finds_facts_before_their_announcement(postgres: Postgres) -> None:
    silence = Notifications(postgres.database)  # it is not opened, so it hears nothing
    names = KnownNames(postgres.database, silence)
    elsewhere = PostgresMemoryStore(postgres.database, silence, names)
    await postgres.store.write(batch_of(segment("a")))
    before = await elsewhere.has_facts(TENANT, None, Deadline.after(5))

    receipt = await postgres.store.write(batch_of(fact("f", "Ann", "sails", "Goa")))

    unheard = await elsewhere.has_facts(TENANT, None, Deadline.after(5))
    assert (before, unheard) == (False, False)
    assert await elsewhere.has_facts(TENANT, receipt.token, Deadline.after(5))
