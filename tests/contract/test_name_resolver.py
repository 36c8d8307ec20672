"""What every resolver of names does, the one in memory and PostgreSQL's."""

from __future__ import annotations

import pytest

from serving.domain.budget import Deadline
from serving.domain.items.records import TenantName, segment_id
from tests.fixtures.memory_or_postgres import Stored
from tests.support.builders import TENANT, segment

# So that the tests notice a statement without its tenant.
pytestmark = pytest.mark.without_row_security

OTHER = TenantName("other")


async def meant(stored: Stored, words: str, tenant: TenantName = TENANT) -> dict[str, str]:
    return dict(await stored.names.meant(tenant, words.split(), Deadline.after(60)))


HELLO = ("Hello.", "Bella, Joanna, Mark")
MEANT = {
    "equal sound": (
        "We sail.",
        "Melanie, Lake Garda",
        "When did Melony sail on Gahrda",
        "Melony=Melanie Gahrda=Garda",
    ),
    "stored word": ("A melony taste.", "Melanie", "Melony", ""),
    "word that every text has": ("The end.", "Theo", "the", ""),
    "ordinary words": (*HELLO, "bill join market melony", ""),
    "ordinary word with a capital": (*HELLO, "Bill", "Bill=Bella"),
    "word that is two": (
        "Some ice cream for the dog sitter. The sauce pan is hot.",
        "Melanie",
        "icecream dogsitter saucepan",
        "icecream=ice cream dogsitter=dog sitter saucepan=sauce pan",
    ),
    "stored word that is two": ("My icecream. Ice cream.", "Melanie", "icecream Icecream", ""),
    "parts that are apart": ("The ice is thin, and cream is fat.", "Melanie", "icecream", ""),
    "word that sounds alike": (
        "The flour and the sail are in the cellar.",
        "Melanie",
        "flower flowers sale seller",
        "flower=flour flowers=flour sale=sail seller=cellar",
    ),
    "stored word that sounds alike": ("A flower in the flour.", "Melanie", "flower", ""),
    "word that sounds like nothing stored": ("We sail.", "Melanie", "flower", ""),
    "name of the tenant": ("Hi.", "Jon, John", "Jon", ""),
    "unstored prefix": ("Hey Mel!", "Melanie, Deborah", "Deb Mel", "Deb=Deborah"),
    "equally near names": ("We sail.", "Karel, Karol", "Karal", ""),
}


@pytest.mark.parametrize(("text", "names", "words", "expected"), MEANT.values(), ids=MEANT)
async def test_unstored_word_means_the_one_name_it_resembles(
    stored: Stored, text: str, names: str, words: str, expected: str
) -> None:
    await stored.write(segment("a", text, entities=names.split(", ")))

    found = await meant(stored, words)

    assert " ".join(f"{word}={name}" for word, name in found.items()) == expected


async def test_names_and_words_of_other_tenants_are_ignored(stored: Stored) -> None:
    await stored.write(segment("a", entities=("Melanie",)))
    await stored.write(segment("a", "Some melony taste.", entities=("Philip",)), tenant=OTHER)

    assert await meant(stored, "Melony Fillip") == {"Melony": "Melanie"}
    assert await meant(stored, "Melony", TenantName("nobody")) == {}


async def test_name_is_known_from_its_write_to_erasure(stored: Stored) -> None:
    await stored.write(segment("a", entities=("Melanie",)))
    before = await meant(stored, "Melony Fillip")
    await stored.write(segment("b", entities=("Philip",)))
    after = await meant(stored, "Melony Fillip")
    await stored.erase(segment_id("a"))

    assert before == {"Melony": "Melanie"}
    assert after == {"Melony": "Melanie", "Fillip": "Philip"}
    assert await meant(stored, "Melony Fillip") == {"Fillip": "Philip"}
