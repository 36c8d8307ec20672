"""The leg of words, against PostgreSQL."""

from __future__ import annotations

import random

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.lexical import PostgresLexicalSearch
from serving.adapters.postgres.words_planner import Budget
from serving.domain.budget import Deadline
from serving.domain.query import Filter, TimeRange
from serving.domain.records import Segment, TenantName
from tests.builders import NOON, TENANT, days, query, scope, segment

pytestmark = pytest.mark.postgres


async def found(
    postgres: Postgres, text: str, *, tenant: str = TENANT, filter_: Filter | None = None
) -> list[str]:
    """The ids of what is found, best first."""
    asked = query(text, scope=scope(tenant, filter_=filter_ or Filter()))
    candidates = await postgres.lexical.search(asked, 100, Deadline.after(10))
    return [candidate.item.id for candidate in candidates]


async def test_rarer_words_count_more_than_repeated_common_ones(postgres: Postgres) -> None:
    await postgres.store.write(
        TENANT,
        [
            segment("common", "the boat and the boat and the boat"),
            segment("rare", "a boat named Argo"),
            *(segment(f"other {place}", "some boat") for place in range(10)),
        ],
    )

    assert (await found(postgres, "the boat Argo"))[0] == "rare"


async def test_title_and_speaker_are_searched_too(postgres: Postgres) -> None:
    await postgres.store.write(
        TENANT, [segment("a", title="Voyages"), segment("b", speaker="Ann"), segment("c", "no")]
    )

    assert await found(postgres, "voyage") == ["a"]
    assert await found(postgres, "ANN") == ["b"]


async def test_an_updated_text_is_found_by_its_new_words_only(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a", "sailing")])
    await postgres.store.write(TENANT, [segment("a", "flying")])

    assert await found(postgres, "sailing") == []
    assert await found(postgres, "flying") == ["a"]


async def test_words_are_those_of_the_tenants_language(postgres: Postgres) -> None:
    german = TenantName("german")
    await postgres.store.write(german, [segment("a", "Die Häuser am Meer")], "german")
    await postgres.store.write(TENANT, [segment("a", "Die Häuser am Meer")])

    assert await found(postgres, "Haus", tenant=german) == ["a"]
    assert await found(postgres, "Haus") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what did the",
        "&|!():*<->",
        "':* | !'",
        "goa'; DROP TABLE segment; --",
        "\\",
        "🏖️",
        "a\x00b",
        "%s %(tenant)s {}",
        "<script> & (unclosed",
        "x" * 3000,
        "word " * 1500,
        " ".join(f"word{place}" for place in range(1000)),
    ],
    ids=range(13),
)
async def test_no_text_is_an_error(postgres: Postgres, text: str) -> None:
    await postgres.store.write(TENANT, [segment("a", "Goa")])

    assert set(await found(postgres, text)) <= {"a"}
    assert await found(postgres, "goa") == ["a"]


async def test_stop_words_alone_find_nothing(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a", "What did she do when?")])

    assert await found(postgres, "What did she do when?") == []


async def test_an_unknown_tenant_has_nothing_to_find(postgres: Postgres) -> None:
    assert await found(postgres, "goa", tenant="nobody") == []


async def test_tenants_do_not_find_each_others_segments(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("mine")])
    await postgres.store.write(TenantName("other"), [segment("theirs")])

    assert await found(postgres, "Goa") == ["mine"]
    assert await found(postgres, "Goa", tenant="other") == ["theirs"]


async def test_what_was_said_later_is_hidden(postgres: Postgres) -> None:
    await postgres.store.write(
        TENANT, [segment("now"), segment("later", event_time=NOON + days(1.01))]
    )

    assert await found(postgres, "Goa") == ["now"]


async def test_equal_scores_are_ordered_by_id_and_the_best_are_kept(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment(id_) for id_ in "dacb"])

    candidates = await postgres.lexical.search(query("Goa"), 3, Deadline.after(10))

    assert [candidate.item.id for candidate in candidates] == ["a", "b", "c"]
    assert len({candidate.score for candidate in candidates}) == 1


async def test_the_answer_is_filled_though_the_plan_left_rows_out(postgres: Postgres) -> None:
    await postgres.store.write(
        TENANT,
        [segment(f"{place:02}", "boat" + (" Argo" if place < 5 else "")) for place in range(30)],
    )
    narrow = PostgresLexicalSearch(
        postgres.database, Budget(all_rows=10, candidates=6, postings=100)
    )

    few = await narrow.search(query("boat Argo"), 5, Deadline.after(10))
    many = await narrow.search(query("boat Argo"), 20, Deadline.after(10))

    assert [candidate.item.id for candidate in few] == ["00", "01", "02", "03", "04"]
    assert len(many) == 20


async def test_a_passed_deadline_is_a_timeout(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a")])

    with pytest.raises(TimeoutError):
        await postgres.lexical.search(query("Goa"), 10, Deadline.after(0))


async def test_a_name_of_any_script_can_be_stored_and_filtered_by(postgres: Postgres) -> None:
    # One character that the key of a name writes as eighteen.
    longest = "\ufdfa" * 85
    await postgres.store.write(TENANT, [segment("a", speaker=longest, entities=(longest,))])

    assert await found(postgres, "Goa", filter_=Filter(speakers=(longest,))) == ["a"]


def random_segment(chance: random.Random, place: int) -> Segment:
    return segment(
        f"{place:03}",
        kind=chance.choice(["turn", "note"]),
        speaker=chance.choice(["", "Ann", "ANN", "Bob"]),
        session=chance.choice(["", "monday", "Monday"]),
        importance=chance.choice([0.0, 0.3, 0.5, 1.0]),
        labels={key: chance.choice("12") for key in "pq" if chance.random() < 0.5},
        entities=tuple(chance.sample(["Goa", "Mary-Ann", "Rome"], chance.randrange(3))),
        entity=chance.choice(["", "goa"]),
        event_time=NOON - days(chance.randrange(60)),
    )


def random_filter(chance: random.Random) -> Filter:
    def some(*values: str) -> tuple[str, ...]:
        return tuple(value for value in values if chance.random() < 0.25)

    start = NOON - days(chance.randrange(60))
    ranges = [
        TimeRange(),
        TimeRange(start, start + days(chance.randrange(1, 40))),
        TimeRange(start),
        TimeRange(None, start),
    ]
    return Filter(
        kinds=some("turn", "note"),
        speakers=some("ann", "BOB"),
        sessions=some("monday"),
        entities=some("GOA", "mary ann"),
        labels=dict.fromkeys(some("p", "q"), ("1", "3")),
        min_importance=chance.choice([0.0, 0.0, 0.4]),
        event_time=chance.choice(ranges),
    )


async def test_filters_mean_what_the_domain_says_they_mean(postgres: Postgres) -> None:
    chance = random.Random(7)
    segments = [random_segment(chance, place) for place in range(80)]
    await postgres.store.write(TENANT, segments)
    partly = 0

    for _ in range(150):
        filter_ = random_filter(chance)
        expected = [stored.id for stored in segments if filter_.accepts(stored)]
        partly += 0 < len(expected) < len(segments)

        assert sorted(await found(postgres, "Goa", filter_=filter_)) == expected
        listed = await postgres.catalog.list_segments(TENANT, filter_, "", 100)
        assert [stored.id for stored in listed] == expected

    assert partly > 50


async def test_times_of_storing_filter_too(postgres: Postgres) -> None:
    await postgres.store.write(TENANT, [segment("a")])
    (stored,) = await postgres.catalog.list_segments(TENANT, Filter(), "", 1)
    assert stored.created_at is not None

    since, before = TimeRange(stored.created_at), TimeRange(None, stored.created_at)

    assert await found(postgres, "Goa", filter_=Filter(created_at=since)) == ["a"]
    assert await found(postgres, "Goa", filter_=Filter(created_at=before)) == []
    assert await found(postgres, "Goa", filter_=Filter(updated_at=since)) == ["a"]
    assert await found(postgres, "Goa", filter_=Filter(updated_at=before)) == []
