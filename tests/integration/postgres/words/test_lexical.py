"""The lexical leg, in PostgreSQL."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from string import ascii_lowercase, digits

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.words import lexical
from serving.adapters.postgres.words.query_plan import Budget
from serving.domain.budget import Deadline
from serving.domain.items.records import Segment, TenantName
from serving.domain.questions.query import NO_FILTER, Filter, TimeRange
from serving.domain.ranking.leg_options import WordsMode, WordsSearch
from serving.ports.memory_store import Batch
from tests.contract.test_lexical import MODES, SearchCase
from tests.integration.postgres.words.searching import ids_of, search
from tests.support.builders import NOON, TENANT, batch_of, days, segment

pytestmark = pytest.mark.postgres

BM25 = [MODES["bm25"]]
ANY = WordsSearch(mode=WordsMode.ANY)
ALL_THEN_ANY = WordsSearch(mode=WordsMode.ALL_THEN_ANY)


async def found(
    postgres: Postgres,
    text: str,
    modes: Iterable[SearchCase] = MODES.values(),
    *,
    tenant: str = TENANT,
    filter_: Filter = NO_FILTER,
) -> list[str]:
    """The ids found, best first, which is the same in all these modes."""
    answers = [
        ids_of(
            await search(
                postgres.lexical, text, words, enough=enough, tenant=tenant, filter_=filter_
            )
        )
        for words, enough in modes
    ]
    assert all(answer == answers[0] for answer in answers), answers
    return answers[0]


# ---------------------------------------------------------------- in every mode


async def test_title_and_speaker_are_searched_too(postgres: Postgres) -> None:
    await postgres.store.write(
        batch_of(segment("a", title="Voyages"), segment("b", speaker="Ann"), segment("c", "no"))
    )

    assert await found(postgres, "voyage") == ["a"]
    assert await found(postgres, "ANN") == ["b"]


async def test_equal_scores_of_bm25_are_ordered_by_time(postgres: Postgres) -> None:
    said = [segment(name, event_time=NOON - days(ago)) for name, ago in (("a", 1), ("b", 3))]
    await postgres.store.write(batch_of(*said, segment("c", event_time=NOON - days(2))))

    assert await found(postgres, "Goa", BM25) == ["b", "c", "a"]


async def test_updated_text_is_found_by_new_words_only(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a", "sailing")))
    await postgres.store.write(batch_of(segment("a", "flying")))

    assert await found(postgres, "sailing") == []
    assert await found(postgres, "flying") == ["a"]


async def test_words_are_those_of_the_tenants_language(postgres: Postgres) -> None:
    german = TenantName("german")
    await postgres.store.write(Batch(german, [segment("a", "Die Häuser am Meer")], "german"))
    await postgres.store.write(batch_of(segment("a", "Die Häuser am Meer")))

    assert await found(postgres, "Haus", tenant=german) == ["a"]
    assert await found(postgres, "Haus") == []


TEXTS = [
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
]


async def test_no_text_is_an_error(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a", "Goa")))

    for text in TEXTS:
        for mode in MODES.values():
            assert set(await found(postgres, text, [mode])) <= {"a"}
    assert await found(postgres, "goa") == ["a"]


ADDRESSES = ["x.org/it's", "http://x.org/a&b=c'd", "x.org/it''s", "x.org/%(any)s"]


async def test_a_word_is_found_whatever_characters_it_has(postgres: Postgres) -> None:
    for address in ADDRESSES:
        await postgres.store.write(batch_of(segment("a", address), segment("b", "y.com/q&e")))

        assert await found(postgres, address) == ["a"]


async def test_the_longest_question_of_different_words_is_no_error(postgres: Postgres) -> None:
    words = [first + second for first, second in product(ascii_lowercase + digits, repeat=2)]
    words += [f"q{word}" for word in words]
    await postgres.store.write(batch_of(segment("a", " ".join(words))))

    assert await found(postgres, " ".join(words)[:8192]) == ["a"]


async def test_names_of_any_script_can_be_filtered(postgres: Postgres) -> None:
    # One character that the key of a name writes as eighteen.
    longest = "\ufdfa" * 85
    await postgres.store.write(batch_of(segment("a", speaker=longest, entities=(longest,))))

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
    await postgres.store.write(Batch(TENANT, segments))
    partly = 0

    for _ in range(150):
        filter_ = random_filter(chance)
        expected = [stored.id for stored in segments if filter_.accepts(stored)]
        partly += 0 < len(expected) < len(segments)

        for mode in MODES.values():
            assert sorted(await found(postgres, "Goa", [mode], filter_=filter_)) == expected
        listed = await postgres.catalog.list_segments(TENANT, filter_, "", 100)
        assert [stored.id for stored in listed] == expected

    assert partly > 50


async def test_times_of_storing_filter_too(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(segment("a")))
    (stored,) = await postgres.catalog.list_segments(TENANT, Filter(), "", 1)
    assert stored.created_at is not None

    since, before = TimeRange(stored.created_at), TimeRange(None, stored.created_at)

    assert await found(postgres, "Goa", filter_=Filter(created_at=since)) == ["a"]
    assert await found(postgres, "Goa", filter_=Filter(created_at=before)) == []
    assert await found(postgres, "Goa", filter_=Filter(updated_at=since)) == ["a"]
    assert await found(postgres, "Goa", filter_=Filter(updated_at=before)) == []


# ---------------------------------------------------------------- BM25


async def test_rarer_words_count_more_than_repeated_common_ones(postgres: Postgres) -> None:
    await postgres.store.write(
        batch_of(
            segment("common", "the boat and the boat and the boat"),
            segment("rare", "a boat named Argo"),
            *(segment(f"other {place}", "some boat") for place in range(10)),
        )
    )

    assert (await found(postgres, "the boat Argo", BM25))[0] == "rare"


async def test_the_answer_is_filled_though_the_plan_left_rows_out(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    await postgres.store.write(
        batch_of(
            *(
                segment(f"{place:02}", "boat" + (" Argo" if place < 5 else ""))
                for place in range(30)
            )
        )
    )
    monkeypatch.setattr(lexical, "BUDGET", Budget(all_rows=10, candidates=6, postings=100))

    few = await search(postgres.lexical, "boat Argo", depth=5)
    many = await search(postgres.lexical, "boat Argo", depth=20)

    assert ids_of(few) == ["00", "01", "02", "03", "04"]
    assert len(many) == 20


# ---------------------------------------------------------------- any word

BOATS = [
    segment("common", "the boat and the boat and the boat"),
    segment("rare", "a boat named Argo"),
]


async def test_cover_density_counts_places_and_not_rarity(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(*BOATS, *(segment(f"{n}", "some boat") for n in "12")))

    candidates = await search(postgres.lexical, "the boat Argo", ANY)

    assert ids_of(candidates) == ["common", "rare", "1", "2"]
    scores = [candidate.score for candidate in candidates]
    assert scores == pytest.approx([0.3, 0.2, 0.1, 0.1])


# ---------------------------------------------------------------- all words, then any

# By ts_rank a word that stands once gives .608, divided by the number of words asked for.
SHARE = 1 / 1.64493406685

VOYAGE = [
    segment("all", "Argo sailed to Goa"),
    segment("most", "Argo sailed"),
    segment("twice", "Goa, Goa"),
    segment("once", "Goa"),
    segment("none", "nothing"),
]


async def voyage(postgres: Postgres, *, enough: int, rank_gate: float = 0.01) -> dict[str, float]:
    """The scores for "voyage", best first."""
    words = WordsSearch(mode=WordsMode.ALL_THEN_ANY, rank_gate=rank_gate)
    candidates = await search(postgres.lexical, "Argo sailed to Goa", words, enough=enough)
    scores = [candidate.score for candidate in candidates]
    assert scores == sorted(scores, reverse=True)
    return {candidate.item.id: candidate.score for candidate in candidates}


async def test_enough_rows_with_all_words_suffice(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, VOYAGE))

    assert [*await voyage(postgres, enough=1)] == ["all"]


async def test_too_few_rows_add_rows_with_any_word(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, VOYAGE))

    found = await voyage(postgres, enough=2)

    assert [*found] == ["all", "most", "twice", "once"]
    assert [*found.values()] == pytest.approx([SHARE, 2 * SHARE / 3, 1.25 * SHARE / 3, SHARE / 3])


async def test_rows_with_any_word_must_rank_above_the_gate(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, VOYAGE))

    assert [*await voyage(postgres, enough=2, rank_gate=SHARE / 3 + 1e-6)] == [
        "all",
        "most",
        "twice",
    ]
    assert [*await voyage(postgres, enough=2, rank_gate=2 * SHARE / 3 + 1e-6)] == ["all"]


async def test_usual_gate_passes_a_single_word_of_many(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, VOYAGE))
    long = "Which crew on which ship once sailed under stars from Lisbon past Malta towards Goa"

    found = await search(postgres.lexical, long, WordsSearch(mode=WordsMode.ALL_THEN_ANY), enough=2)

    assert "once" in ids_of(found)


async def test_rows_with_all_words_are_there_whatever_the_gate(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, VOYAGE))

    assert [*await voyage(postgres, enough=2, rank_gate=1.0)] == ["all"]


REPEATED = segment("repeated", "Argo sailed. " * 30)


async def test_repeated_words_can_outrank_all_words(postgres: Postgres) -> None:
    await postgres.store.write(batch_of(*VOYAGE, REPEATED))

    assert [*await voyage(postgres, enough=2)][:2] == ["repeated", "all"]


async def test_rows_with_all_words_can_fill_the_depth(postgres: Postgres) -> None:
    await postgres.store.write(
        batch_of(*VOYAGE, REPEATED, segment("too", "Argo sailed to Goa, too"))
    )

    candidates = await search(
        postgres.lexical, "Argo sailed to Goa", ALL_THEN_ANY, depth=2, enough=10
    )

    assert ids_of(candidates) == ["all", "too"]


# ---------------------------------------------------------------- parts

PARTS = [
    segment("text", "Goa it was"),
    segment("title", "so it was", title="Goa"),
    segment("keywords", "so it was", keywords=("Goa", "beach holiday")),
    segment("speaker", "so it was", speaker="Goa"),
]


async def test_a_part_weighs_what_the_search_says(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, PARTS))

    for mode, part in product(WordsMode, ("title", "keywords", "speaker")):
        heavy, light, without = [
            await search(postgres.lexical, "Goa", WordsSearch(mode=mode, **{part: weight}))
            for weight in (4.0, 0.5, 0.0)
        ]

        assert ids_of(heavy)[0] == part
        assert ids_of(light)[-1] == part
        assert sorted(ids_of(without)) == sorted(each.id for each in PARTS if each.id != part)
        text = {each.item.id: each.score for each in heavy}["text"]
        assert heavy[0].score == pytest.approx(4 * text, rel=0.2)


async def test_keywords_are_found_like_the_text_and_read_back(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, PARTS))

    found = await search(postgres.lexical, "beaches on holidays")
    stored = await postgres.store.load(TENANT, [PARTS[2].item], Deadline.after(60))

    assert ids_of(found) == ["keywords"]
    (again,) = stored.values()
    assert isinstance(again, Segment)
    assert again.keywords == ("Goa", "beach holiday")


async def test_changed_keywords_are_a_change_of_the_segment(postgres: Postgres) -> None:
    await postgres.store.write(Batch(TENANT, PARTS))

    await postgres.store.write(batch_of(replace(PARTS[2], keywords=("Porto",))))

    assert "keywords" not in ids_of(await search(postgres.lexical, "Goa"))
    assert ids_of(await search(postgres.lexical, "Porto")) == ["keywords"]
