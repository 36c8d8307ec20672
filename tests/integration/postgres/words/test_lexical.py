"""What PostgreSQL finds by words, the names that it knows, and the statistics of words."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import product
from string import ascii_lowercase, digits
from typing import Any

import pytest

from serving.adapters.postgres.assembly import Postgres
from serving.adapters.postgres.connection.notifications import MAX_NAMED, Channel, Notifications
from serving.adapters.postgres.words import lexical, word_statistics
from serving.adapters.postgres.words.known_names import UNCHECKED_S, KnownNames
from serving.adapters.postgres.words.word_statistics import (
    UNKNOWN_SHARE,
    WordStatisticsCache,
    count_words,
    estimate_words,
)
from serving.domain.budget import Deadline
from serving.domain.items.records import Segment, TenantName, segment_id
from serving.domain.questions.query import Filter
from serving.domain.ranking.leg_options import WordsMode, WordsSearch
from serving.domain.words.query_plan import Budget
from serving.ports.memory_store import Batch, Selector
from tests.contract.test_words import MODES, SearchCase
from tests.integration.postgres.log.following import run, write
from tests.integration.postgres.words.searching import ids_of, search
from tests.support.builders import NOON, TENANT, days, ids, segment
from tests.support.waiting import until_async

pytestmark = pytest.mark.postgres
BM25 = [MODES["bm25"]]
ANY = WordsSearch(mode=WordsMode.ANY)
ALL_THEN_ANY = WordsSearch(mode=WordsMode.ALL_THEN_ANY)


async def found(
    postgres: Postgres, text: str, modes: Iterable[SearchCase] = MODES.values(), **of_scope: Any
) -> list[str]:
    """The ids found, best first, which is the same in all these modes."""
    answers = [
        ids_of(await search(postgres.lexical, text, words, enough=enough, **of_scope))
        for words, enough in modes
    ]
    assert all(answer == answers[0] for answer in answers), answers
    return answers[0]


# ---------------------------------------------------------------- in every mode


async def test_equal_scores_of_bm25_are_ordered_by_time(postgres: Postgres) -> None:
    said = [segment(name, event_time=NOON - days(ago)) for name, ago in (("a", 1), ("b", 3))]
    await write(postgres, *said, segment("c", event_time=NOON - days(2)))

    assert await found(postgres, "Goa", BM25) == ["b", "c", "a"]


async def test_text_of_no_known_language_has_the_tenants(postgres: Postgres) -> None:
    german = TenantName("german")
    await postgres.store.write(Batch(german, [segment("a", "Häuser, Meer")], "german"))
    await write(postgres, segment("a", "Häuser, Meer"))

    assert await found(postgres, "Haus", tenant=german) == ["a"]
    assert await found(postgres, "Haus") == []


async def test_tenant_with_two_languages_is_searched_in_both(postgres: Postgres) -> None:
    await write(
        postgres,
        segment("german", "Die Häuser am Meer sind verkauft."),
        segment("english", "We sold the cottages by the lake."),
    )

    assert await found(postgres, "Was war mit dem Haus?") == ["german"]
    assert await found(postgres, "Who has a cottage?") == ["english"]


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
    await write(postgres, segment("a", "Goa"))

    for text in TEXTS:
        for mode in MODES.values():
            assert set(await found(postgres, text, [mode])) <= {"a"}
    assert await found(postgres, "goa") == ["a"]


ADDRESSES = ["x.org/it's", "http://x.org/a&b=c'd", "x.org/it''s", "x.org/%(any)s"]


async def test_a_word_is_found_whatever_characters_it_has(postgres: Postgres) -> None:
    for address in ADDRESSES:
        await write(postgres, segment("a", address), segment("b", "y.com/q&e"))

        assert await found(postgres, address) == ["a"]


async def test_the_longest_question_of_different_words_is_no_error(postgres: Postgres) -> None:
    words = [first + second for first, second in product(ascii_lowercase + digits, repeat=2)]
    words += [f"q{word}" for word in words]
    await write(postgres, segment("a", " ".join(words)))

    assert await found(postgres, " ".join(words)[:8192]) == ["a"]


async def test_names_of_any_script_can_be_filtered(postgres: Postgres) -> None:
    # One character that the key of a name writes as eighteen.
    longest = "\ufdfa" * 85
    await write(postgres, segment("a", speaker=longest, entities=(longest,)))

    assert await found(postgres, "Goa", filter_=Filter(speakers=(longest,))) == ["a"]


# ---------------------------------------------------------------- BM25


BOATS = [
    segment("common", "the boat and the boat and the boat"),
    segment("rare", "a boat named Argo"),
]


async def test_rarer_words_count_more_than_repeated_common_ones(postgres: Postgres) -> None:
    await write(postgres, *BOATS, *(segment(f"{place}", "some boat") for place in range(10)))

    assert (await found(postgres, "the boat Argo", BM25))[0] == "rare"


async def test_the_answer_is_filled_though_the_plan_left_rows_out(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["boat Argo"] * 5 + ["boat"] * 25
    await write(postgres, *(segment(f"{n:02}", text) for n, text in enumerate(texts)))
    monkeypatch.setattr(lexical, "BUDGET", Budget(all_rows=10, candidates=6, postings=100))

    few = await search(postgres.lexical, "boat Argo", depth=5)
    many = await search(postgres.lexical, "boat Argo", depth=20)

    assert ids_of(few) == ["00", "01", "02", "03", "04"]
    assert len(many) == 20


# ---------------------------------------------------------------- any word


async def test_cover_density_counts_places_and_not_rarity(postgres: Postgres) -> None:
    await write(postgres, *BOATS, *(segment(f"{n}", "some boat") for n in "12"))

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
    words = WordsSearch(mode=WordsMode.ALL_THEN_ANY, rank_gate=rank_gate)
    candidates = await search(postgres.lexical, "Argo sailed to Goa", words, enough=enough)
    scores = [candidate.score for candidate in candidates]
    assert scores == sorted(scores, reverse=True)
    return {candidate.item.id: candidate.score for candidate in candidates}


async def test_too_few_rows_add_rows_with_any_word(postgres: Postgres) -> None:
    await write(postgres, *VOYAGE)

    enough = await voyage(postgres, enough=1)
    too_few = await voyage(postgres, enough=2)

    assert [*enough] == ["all"]
    assert [*too_few] == ["all", "most", "twice", "once"]
    scores = [SHARE, 2 * SHARE / 3, 1.25 * SHARE / 3, SHARE / 3]
    assert [*too_few.values()] == pytest.approx(scores)


@pytest.mark.parametrize(
    ("gate", "above"),
    [
        (SHARE / 3 + 1e-6, ["all", "most", "twice"]),
        (2 * SHARE / 3 + 1e-6, ["all"]),
        (1.0, ["all"]),  # whatever the gate
    ],
)
async def test_rows_with_any_word_must_rank_above_the_gate(
    postgres: Postgres, gate: float, above: list[str]
) -> None:
    await write(postgres, *VOYAGE)

    assert [*await voyage(postgres, enough=2, rank_gate=gate)] == above


async def test_usual_gate_passes_a_single_word_of_many(postgres: Postgres) -> None:
    await write(postgres, *VOYAGE)
    long = "Which crew on which ship once sailed under stars from Lisbon past Malta towards Goa"

    found = await search(postgres.lexical, long, ALL_THEN_ANY, enough=2)

    assert "once" in ids_of(found)


REPEATED = segment("repeated", "Argo sailed. " * 30)


async def test_rows_with_all_words_fill_the_depth_first(postgres: Postgres) -> None:
    await write(postgres, *VOYAGE, REPEATED, segment("too", "Argo sailed to Goa, too"))

    whole = await voyage(postgres, enough=3)
    first = await search(postgres.lexical, "Argo sailed to Goa", ALL_THEN_ANY, depth=2)

    assert [*whole][:2] == ["repeated", "all"], "many of some words can outrank all words"
    assert ids_of(first) == ["all", "too"]


# ---------------------------------------------------------------- parts

PARTS = [
    segment("text", "Goa it was"),
    segment("title", "so it was", title="Goa"),
    segment("keywords", "so it was", keywords=("Goa", "beach holiday")),
    segment("speaker", "so it was", speaker="Goa"),
]


async def test_part_of_a_segment_has_the_weight_given(postgres: Postgres) -> None:
    await write(postgres, *PARTS)

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


async def test_keywords_are_found_like_the_text_and_change(postgres: Postgres) -> None:
    await write(postgres, *PARTS)
    assert ids_of(await search(postgres.lexical, "beaches on holidays")) == ["keywords"]
    [again] = (await postgres.store.load(TENANT, [PARTS[2].item], Deadline.after(60))).values()
    assert isinstance(again, Segment)
    assert again.keywords == ("Goa", "beach holiday")

    await write(postgres, replace(PARTS[2], keywords=("Porto",)))

    assert "keywords" not in ids_of(await search(postgres.lexical, "Goa"))
    assert ids_of(await search(postgres.lexical, "Porto")) == ["keywords"]


async def test_a_name_committed_late_is_not_missed(postgres: Postgres) -> None:
    await write(postgres, segment("a"))
    async with postgres.database.transaction() as slow:
        await slow.execute("INSERT INTO entity SELECT id, 'slow', 'Slow' FROM tenant")
        await write(postgres, segment("b", entities=("Quick",)))
        during = dict(await postgres.store.known_names(TENANT))

    assert during == {"quick": "Quick"}
    assert await postgres.store.known_names(TENANT) == {"quick": "Quick", "slow": "Slow"}


@pytest.mark.parametrize(
    ("selector", "left"),
    [(Selector(items=(segment_id("a"),)), {"rome": "Rome"}), (Selector(everything=True), {})],
    ids=["items", "everything"],
)
async def test_names_changed_elsewhere_are_noticed_at_once(
    postgres: Postgres, postgres_dsn: str, selector: Selector, left: dict[str, str]
) -> None:
    async with Postgres(postgres_dsn) as other:
        await write(postgres, segment("a", entities=("Goa",)))
        before = dict(await other.store.known_names(TENANT))

        await write(postgres, segment("b", entities=("Rome",)))
        written = dict(await other.store.known_names(TENANT))
        await postgres.store.erase(TENANT, selector)

        assert before == {"goa": "Goa"}
        assert written == {"goa": "Goa", "rome": "Rome"}
        assert await other.store.known_names(TENANT) == left


async def test_memory_for_names_is_bounded(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.words.known_names.MAX_NAMES", 2)
    tenants = [TenantName(name) for name in "abc"]
    for tenant in tenants:
        await write(postgres, segment("a", entities=(f"Goa {tenant}", "Rome")), tenant=tenant)

    for tenant in tenants * 2:
        assert len(await postgres.store.known_names(tenant)) == 2


async def test_slow_name_load_is_cached_for_the_next_query(
    postgres: Postgres, postgres_dsn: str
) -> None:
    await write(postgres, segment("a", entities=("Melanie",)))
    async with Postgres(postgres_dsn, work_connections=1) as other:
        async with other.database.work():  # so that none is left to read with
            with pytest.raises(TimeoutError):
                await other.names.meant(TENANT, ["Melony"], Deadline.after(0.05))

        async with other.database.work():  # lent after it was lent to the reading
            corrected = await other.names.meant(TENANT, ["Melony"], Deadline.after(60))

    assert corrected == {"Melony": "Melanie"}


PLAIN = ["When", "did", "Melanie", "swim"]
"""Words that are names or stop words, or have no homophone: none may stand for another."""


async def meant(adapters: Postgres, *words: str) -> dict[str, str]:
    return await adapters.names.meant(TENANT, words, Deadline.after(60))


async def test_a_question_without_an_unknown_word_needs_no_connection(
    postgres: Postgres, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.adapters.postgres.words.known_names.UNCHECKED_S", math.inf)
    await write(postgres, segment("a", "We swim", entities=("Melanie", "Deborah")))
    async with Postgres(postgres_dsn, search_connections=1) as other:
        for _ in range(2):  # the first reads the names, the second the words that resemble one
            assert await meant(other, *PLAIN, "Deb") == {"Deb": "Deborah"}

        async def needs_no_connection() -> bool:
            # Names are stale once more when the connection that listens for changes is there.
            await meant(other, "Deb")
            async with other.database.search(Deadline.after(60)):  # the only one
                try:
                    return await other.names.meant(TENANT, PLAIN, Deadline.after(1)) == {}
                except TimeoutError:
                    return False

        await until_async(needs_no_connection)
        async with other.database.search(Deadline.after(60)):
            with pytest.raises(TimeoutError):
                await other.names.meant(TENANT, ["Deb"], Deadline.after(0.05))


async def test_announced_name_of_another_process_is_matched(
    postgres: Postgres, postgres_dsn: str
) -> None:
    async with Postgres(postgres_dsn) as other:
        await write(postgres, segment("a", entities=("Deborah",)))
        assert await meant(other, "Melony") == {}
        before = other.notifications.received([Channel.CHANGES])

        await write(postgres, segment("b", entities=("Melanie",)))
        await other.notifications.wait_beyond(before, [Channel.CHANGES], 10)

        assert await meant(other, "Melony") == {"Melony": "Melanie"}


@asynccontextmanager
async def listening_process(postgres: Postgres, dsn: str) -> AsyncIterator[Notifications]:
    """The notifications of another process, which has received one of `TENANT`."""
    async with Postgres(dsn) as other:
        heard = other.notifications.heard

        def is_listening() -> bool:
            postgres.notifications.announce(Channel.CHANGES, TENANT)
            return heard(TENANT) > heard(TenantName("unwritten"))

        await until_async(is_listening)
        yield other.notifications


async def test_change_is_announced_for_its_tenant_alone(
    postgres: Postgres, postgres_dsn: str
) -> None:
    written, unwritten = TenantName("written"), TenantName("unwritten")
    async with listening_process(postgres, postgres_dsn) as notifications:
        before = notifications.heard(unwritten)
        await write(postgres, segment("a"), tenant=written)

        await until_async(lambda: notifications.heard(written) > before)
        assert notifications.heard(unwritten) == before


async def test_many_announced_tenants_stand_for_all(postgres: Postgres, postgres_dsn: str) -> None:
    async with listening_process(postgres, postgres_dsn) as notifications:
        before = notifications.heard()
        for number in range(MAX_NAMED + 1):
            postgres.notifications.announce(Channel.CHANGES, TenantName(f"t{number}"))

        await until_async(lambda: notifications.heard(TenantName("unwritten")) > before)


async def test_names_are_reread_without_announcements(postgres: Postgres) -> None:
    now_s = 0.0
    names = KnownNames(postgres.database, postgres.notifications, clock=lambda: now_s)
    await write(postgres, segment("a", entities=("Goa",)))
    assert names.current(TENANT) is None
    while names.current(TENANT) is None:  # until the announcement of the write has come
        await names.of_tenant(TENANT)
        now_s += UNCHECKED_S

    now_s += UNCHECKED_S + 0.1

    assert names.current(TENANT) is None


OTHER = TenantName("other")


async def tenant_id(postgres: Postgres, tenant: TenantName) -> int:
    [(found,)] = await run(postgres, "SELECT id FROM tenant WHERE name = %s", tenant)
    return int(found)


async def fill(postgres: Postgres) -> None:
    """A tenant with four segments, of two and three words, and another with long ones."""
    said = ("boat harbour", "boat harbour", "boat island", "boat sail wind")
    await write(postgres, *map(segment, "abcd", said))
    long = "boat one two three four five six"
    await write(postgres, *(segment(f"{place}", long) for place in range(4)), tenant=OTHER)


async def test_a_tenants_words_are_counted_exactly(postgres: Postgres) -> None:
    await fill(postgres)
    await write(postgres, *(segment(id_, "xyzzy boat", sensitive=True) for id_ in "ef"))
    async with postgres.database.work() as connection:
        counted = await count_words(connection, await tenant_id(postgres, TENANT), 4)

    assert counted.frequency("boat") == 4
    assert counted.frequency("harbour") == 2
    for word in ("island", "never said", "xyzzy"):  # the last is in sensitive segments
        assert counted.frequency(word) == 1


async def test_estimates_take_the_words_of_all_tenants(postgres: Postgres) -> None:
    await fill(postgres)
    async with postgres.database.work() as connection:
        unknown = await estimate_words(connection, 4)
        await connection.execute("ANALYZE segment")
        estimated = await estimate_words(connection, 4)

    assert unknown.frequency("boat") == unknown.frequency("harbour") == 4 * UNKNOWN_SHARE
    assert estimated.frequency("boat") == 4
    assert 0 < estimated.frequency("never said") < estimated.frequency("harbour") < 4


async def test_a_large_tenant_is_searched_with_estimates(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_statistics, "LARGEST_COUNTED_AT_ONCE", 0)
    monkeypatch.setattr(word_statistics, "LARGEST_COUNTED", 0)
    await fill(postgres)

    for _ in range(3):
        found = await search(postgres.lexical, "island harbour", depth=10)
        assert sorted(candidate.item for candidate in found) == ids("a", "b", "c")


async def test_old_statistics_are_used_once_and_recounted(postgres: Postgres) -> None:
    now = 0.0
    await fill(postgres)
    number = await tenant_id(postgres, TENANT)
    cache = WordStatisticsCache(postgres.database, postgres.notifications, clock=lambda: now)

    async def counted(segments: int) -> bool:
        async with postgres.database.work() as connection:
            return (await cache.of_tenant(connection, number)).segments == segments

    assert await counted(4)
    await write(postgres, segment("e"))
    assert await counted(4)
    now = 10.0
    assert await counted(4)
    await until_async(lambda: counted(5))
    await cache.close()


async def test_unchanged_words_are_counted_once(postgres: Postgres) -> None:
    now = 0.0
    await fill(postgres)
    number = await tenant_id(postgres, TENANT)
    quiet = Notifications(postgres.database)  # does not listen
    cache = WordStatisticsCache(postgres.database, quiet, clock=lambda: now)

    async with postgres.database.work() as connection:
        await cache.of_tenant(connection, number)
        now = 1000.0
        await cache.of_tenant(connection, number)
        without_news = tasks()
        quiet.announce(Channel.CHANGES)
        await cache.of_tenant(connection, number)
        with_news = tasks()
    await cache.close()
    await quiet.close()

    assert with_news - without_news >= {"word-statistics"}


def tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}
