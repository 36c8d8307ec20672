"""What every resolver of names does, the one in memory and PostgreSQL's."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName, segment_id
from serving.ports.memory_store import Batch, MemoryStore, Selector
from serving.ports.words import NameResolver
from tests.fakes.names import InMemoryNameResolver
from tests.fakes.store import InMemoryStore
from tests.support.builders import TENANT, batch_of, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

OTHER = TenantName("other")


class Stored(NamedTuple):
    store: MemoryStore
    names: NameResolver

    async def meant(self, words: str, tenant: TenantName = TENANT) -> dict[str, str]:
        return dict(await self.names.meant(tenant, words.split(), Deadline.after(60)))


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def stored(request: pytest.FixtureRequest) -> Stored:
    if request.param == "memory":
        memory = InMemoryStore()
        return Stored(memory, InMemoryNameResolver(memory))
    adapters = request.getfixturevalue("postgres")
    return Stored(adapters.store, adapters.names)


async def test_unstored_word_is_the_name_of_equal_sound(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a", entities=("Melanie", "Lake Garda"))))

    assert await stored.meant("When did Melony sail on Gahrda") == {
        "Melony": "Melanie",
        "Gahrda": "Garda",
    }


async def test_stored_word_is_never_corrected(stored: Stored) -> None:
    melon = segment("a", "A melony taste.", entities=("Melanie",))
    await stored.store.write(batch_of(melon))

    assert await stored.meant("Melony") == {}


async def test_a_word_that_every_text_has_is_no_name(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a", "The end.", entities=("Theo",))))

    assert await stored.meant("the") == {}


async def test_ordinary_word_is_a_name_if_capitalised(stored: Stored) -> None:
    names = ("Bella", "Joanna", "Mark")
    await stored.store.write(batch_of(segment("a", "Hello.", entities=names)))

    assert await stored.meant("bill join market melony") == {}
    assert await stored.meant("Bill") == {"Bill": "Bella"}


async def test_a_name_of_the_tenant_is_taken_for_no_other(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a", "Hi.", entities=("Jon", "John"))))

    assert await stored.meant("Jon") == {}


async def test_unstored_prefix_of_a_name_is_its_short_form(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a", "Hey Mel!", entities=("Melanie", "Deborah"))))

    assert await stored.meant("Deb Mel") == {"Deb": "Deborah"}


async def test_equally_near_names_correct_nothing(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a", entities=("Karel", "Karol"))))

    assert await stored.meant("Karal") == {}


async def test_names_and_words_of_other_tenants_are_ignored(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a", entities=("Melanie",))))
    await stored.store.write(
        Batch(OTHER, [segment("a", "Some melony taste.", entities=("Philip",))])
    )

    assert await stored.meant("Melony Fillip") == {"Melony": "Melanie"}
    assert await stored.meant("Melony", TenantName("nobody")) == {}


async def test_name_is_known_from_its_write_to_erasure(stored: Stored) -> None:
    await stored.store.write(batch_of(segment("a", entities=("Melanie",))))
    before = await stored.meant("Melony Fillip")
    await stored.store.write(batch_of(segment("b", entities=("Philip",))))
    after = await stored.meant("Melony Fillip")
    await stored.store.erase(TENANT, Selector(items=(segment_id("a"),)))

    assert before == {"Melony": "Melanie"}
    assert after == {"Melony": "Melanie", "Fillip": "Philip"}
    assert await stored.meant("Melony Fillip") == {"Fillip": "Philip"}
