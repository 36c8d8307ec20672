"""What the guards of a question take: the guards of a pair of rounds are there, and pass."""

from __future__ import annotations

from bench.speed.overload.cost import answer_ms, guarded_questions, measured
from serving.config.profiles import DEFAULT_PROFILE, ProfileBook


def test_the_questions_of_a_round_are_admitted_and_pass_all_breakers() -> None:
    round_ = guarded_questions(ProfileBook.load()[DEFAULT_PROFILE])

    round_()
    round_()


def test_what_the_guards_take_is_less_than_an_answer() -> None:
    assert 0 < measured(pairs=5) < answer_ms() * 1e3
