"""Every profile answers over the sample, and every score explains itself."""

from __future__ import annotations

import pytest

from serving.config.profiles import ProfileBook
from tests.e2e.test_sample import questions, sample
from trivium import Client, LegState, Loss

__all__ = ["sample"]
PROFILES = sorted(ProfileBook.load())
QUESTION, _ = questions()["words"]


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_answers_and_its_ledgers_add_up(
    sample: tuple[Client, str], profile: str
) -> None:
    memory, token = sample

    answer = memory.retrieve(QUESTION, profile=profile, consistency_token=token, explain=True)

    assert answer.hits
    assert {report.state for report in answer.leg_reports} == {LegState.OK}
    for hit in answer.hits:
        assert hit.ledger is not None
        assert hit.ledger.recompute() == pytest.approx(hit.score, abs=1e-9)


def test_two_profiles_are_compared_side_by_side(sample: tuple[Client, str]) -> None:
    memory, token = sample

    found = memory.compare(QUESTION, profile="annie", against="default", consistency_token=token)

    assert (found.retrieved.profile, found.against.profile) == ("annie", "default")
    ranks = {hit.id: hit.rank for hit in found.retrieved.hits}
    assert {each.item.id: each.rank for each in found.rank_changes if each.rank} == ranks
    assert 0 <= found.overlap <= 1


def test_absence_is_explained_over_the_network(sample: tuple[Client, str]) -> None:
    memory, token = sample
    answer = memory.retrieve(QUESTION, consistency_token=token, limit=1)
    everything = memory.retrieve(QUESTION, consistency_token=token, limit=100)

    found, lost, nobody = (
        memory.explain_absence(QUESTION, segment_id=id_, consistency_token=token, limit=1)
        for id_ in (answer.hits[0].id, everything.hits[-1].id, "no-such-segment")
    )

    assert (found.loss, found.rank) == (Loss.NONE, 1)
    assert lost.loss is Loss.CUT
    assert nobody.loss is Loss.NOT_STORED
