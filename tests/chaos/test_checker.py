"""The checker finds each fault that is planted, and none where there is none."""

from __future__ import annotations

import math

import pytest

from tests.chaos.checker import Finding, Held, Kind, Read, Stores, Write, check
from tests.chaos.items import ANOTHER, PARTS, Group, ItemName

GROUP = Group("acme", "g1")
ITEM = GROUP.item("a")
NAMES = ("postgres", "embeddings", "vector_index", "graph")


def write(version: int | None, started: float, ended: float = math.inf) -> Write:
    return Write(group=GROUP, version=version, started=started, ended=ended)


def rows(version: int) -> list[Held]:
    return [Held(GROUP.item(part), version) for part in PARTS]


def stores(version: int | None) -> dict[str, list[Held]]:
    """Stores that all hold the group in this version, or nothing."""
    return {name: rows(version) if version is not None else [] for name in NAMES}


def answered(
    *hits: Held, started: float = 6, after: Write | None = None, complete: bool = True
) -> Read:
    return Read(
        asked=ITEM, started=started, ended=started + 1, hits=hits, after=after, complete=complete
    )


def kinds(findings: list[Finding]) -> list[Kind]:
    return [finding.kind for finding in findings]


WRITTEN, UPDATED, ERASED = write(1, 0, 1), write(2, 2, 3), write(None, 4, 5)


def test_a_history_that_is_right_has_no_finding() -> None:
    read = answered(Held(ITEM, 2), started=3.5, after=UPDATED)

    assert check([WRITTEN, UPDATED], [read], stores(2)) == []
    assert check([WRITTEN, UPDATED, ERASED], [read], stores(None)) == []


@pytest.mark.parametrize("store", NAMES)
def test_a_planted_loss_is_found_in_each_store(store: str) -> None:
    held = stores(2)
    held[store] = [row for row in held[store] if row.item != ITEM]

    found = [each for each in check([WRITTEN, UPDATED], [], held) if each.where == store]

    assert Kind.LOST in kinds(found)
    assert {each.item for each in found} == {ITEM}


@pytest.mark.parametrize("store", NAMES)
def test_a_planted_double_is_found_in_each_store(store: str) -> None:
    held = stores(2)
    held[store].append(Held(ITEM, 2))

    [found] = check([WRITTEN, UPDATED], [], held)

    assert (found.kind, found.where, found.item) == (Kind.DOUBLE, store, ITEM)


@pytest.mark.parametrize(
    ("store", "version"), [("postgres", 1), *((store, ANOTHER) for store in NAMES[1:])]
)
def test_a_planted_older_version_is_found_in_each_store(store: str, version: int) -> None:
    held = {**stores(2), store: rows(version)}

    found = [each for each in check([WRITTEN, UPDATED], [], held) if each.where == store]

    assert kinds(found) == [Kind.STALE] * len(PARTS)


@pytest.mark.parametrize("store", NAMES)
def test_a_planted_resurrection_is_found_in_each_store(store: str) -> None:
    held = {**stores(None), store: rows(1)}

    found = [each for each in check([WRITTEN, ERASED], [], held) if each.where == store]

    assert kinds(found) == [Kind.RESURRECTED] * len(PARTS)


def test_a_planted_half_written_batch_is_found() -> None:
    held = {store: [*rows(2)[:2], *rows(1)[2:]] for store in NAMES}

    # The client gave up: either version is right, but not both.
    found = check([WRITTEN, write(2, 2)], [], held)

    assert kinds(found) == [Kind.HALF_WRITTEN]


def test_an_item_that_nobody_wrote_is_found() -> None:
    stray = ItemName("acme", "g9.a")

    [found] = check([], [], {"postgres": [], "graph": [Held(stray, ANOTHER)]})

    assert (found.kind, found.item) == (Kind.RESURRECTED, stray)


@pytest.mark.parametrize(
    ("last", "read", "kind"),
    [
        (UPDATED, answered(Held(ITEM, 1)), Kind.STALE),
        (UPDATED, answered(Held(ITEM, 2), Held(ITEM, 2)), Kind.DOUBLE),
        (UPDATED, answered(after=UPDATED), Kind.STALE),
        (UPDATED, answered(Held(GROUP.item("b"), ANOTHER)), Kind.STALE),
        (ERASED, answered(Held(ITEM, 1)), Kind.RESURRECTED),
    ],
    ids=["an older version", "a double", "not what the token is of", "no version of it", "erased"],
)
def test_a_planted_wrong_answer_is_found(last: Write, read: Read, kind: Kind) -> None:
    [found] = check([WRITTEN, last], [read], stores(last.version))

    assert (found.kind, found.where) == (kind, "an answer")


def test_overlapping_calls_may_happen_in_either_order() -> None:
    overlapping = [write(1, 0, 3), write(2, 1, 2)]

    assert check(overlapping, [], stores(1)) == []
    assert check(overlapping, [], stores(2)) == []
    assert Kind.LOST in kinds(check(overlapping, [], stores(None)))


@pytest.mark.parametrize("held", [1, 2])
def test_abandoned_call_may_have_happened_or_not(held: int) -> None:
    assert check([WRITTEN, write(2, 2)], [], stores(held)) == []


@pytest.mark.parametrize(
    "read",
    [
        answered(Held(ITEM, 1), started=2.5),
        answered(Held(ITEM, 2), started=2.5),
        answered(started=2.5, after=WRITTEN),
    ],
    ids=["before", "after", "a token of what is being replaced"],
)
def test_an_answer_during_a_write_may_show_either(read: Read) -> None:
    assert check([WRITTEN, UPDATED], [read], stores(2)) == []


def test_leg_reporting_an_unseen_token_is_not_stale() -> None:
    read = answered(after=UPDATED, complete=False)

    assert check([WRITTEN, UPDATED], [read], stores(2)) == []


def test_findings_name_the_item_and_its_version() -> None:
    held: Stores = {**stores(2), "graph": []}

    found = check([WRITTEN, UPDATED], [], held)

    assert str(found[0]) == "lost: acme/g1.a in graph, nothing instead of version 2"
