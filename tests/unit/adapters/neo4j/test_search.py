from __future__ import annotations

from serving.adapters.neo4j.search import candidates
from serving.domain.profile import Yields
from serving.domain.ranking import Candidate
from serving.domain.records import fact_id, segment_id

NO_STEP = [None, None, None, None]


def mention(seed: str, gain: float = 1.0) -> list[object]:
    return [gain, seed, *NO_STEP, *NO_STEP, False]


def walk(gain: float, *steps: str, seed: str = "Mara", cited: bool = True) -> list[object]:
    """A trail over facts written "id relation end", backwards if the id begins with "<"."""
    written: list[object] = []
    for step in steps:
        id_, relation, end = step.split()
        written += [id_.lstrip("<"), relation, "OBJECT" if id_[0] == "<" else "SUBJECT", end]
    return [gain, seed, *written, *NO_STEP * (2 - len(steps)), cited]


def read(*trails: list[object]) -> Candidate:
    [found] = candidates([["s", 1_500_000_000, list(trails)]], Yields.EVIDENCE)
    return found


def test_a_score_is_read_from_billionths() -> None:
    assert read(mention("Mara")) == Candidate(segment_id("s"), 1.5, "Mara")


def test_the_path_of_mentions_names_all_that_are_mentioned() -> None:
    assert read(mention("Mara", 0.1), mention("Goa", 0.4)).path == "Goa, Mara"


def test_the_path_over_facts_shows_their_direction() -> None:
    found = read(walk(0.5, "f1 owns Shop", "<f2 likes Tom"))

    assert found.path == "Mara -[owns]-> Shop <-[likes]- Tom"
    assert found.facts == ("f2",)


def test_the_path_is_that_of_the_first_fact_and_facts_are_best_first() -> None:
    found = read(
        mention("Mara", 9.0),
        walk(0.2, "f1 likes Goa"),
        walk(0.4, "f2 likes Rome"),
        walk(0.1, "f2 likes Rome", seed="Tom"),
        walk(0.9, "f3 likes Oslo", cited=False),
    )

    assert found.path == "Mara -[likes]-> Rome"
    assert found.facts == ("f2", "f1")


def test_facts_are_candidates_without_facts_of_their_own_and_equal_scores_go_by_id() -> None:
    trails = [walk(0.2, "f1 likes Goa", cited=False)]

    found = candidates([["b", 2, trails], ["a", 2, trails], ["c", 3, trails]], Yields.FACTS)

    assert [candidate.item for candidate in found] == [fact_id("c"), fact_id("a"), fact_id("b")]
    assert found[0].facts == ()
    assert found[0].path == "Mara -[likes]-> Goa"


def test_what_only_hubs_brought_has_no_path_to_show() -> None:
    assert read().path == ""
