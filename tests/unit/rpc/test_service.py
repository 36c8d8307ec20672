"""What a running service makes of a changed configuration."""

from __future__ import annotations

from typing import Any

import pytest

from serving.profiles import ProfileBook
from serving.rpc.service import TriviumService

NO_USE_CASES: Any = None
"""Profiles are changed without asking anything of them."""


class OddBook(ProfileBook):
    """Fails in a way that nobody has thought of."""

    def reconfigured(self, changes: Any) -> ProfileBook:
        raise RecursionError("/a/path/of/ours")


@pytest.fixture
def service() -> TriviumService:
    return TriviumService(NO_USE_CASES, ProfileBook.load())


def test_changes_are_laid_over_the_profiles_of_the_start(service: TriviumService) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 13}}})
    service.reconfigure({"profiles": {"annie": {"limit": 4}}})

    assert service.profiles["default"].limit == ProfileBook.load()["default"].limit
    assert service.profiles["annie"].limit == 4


@pytest.mark.parametrize(
    ("user_config", "said"),
    [
        ({"profiles": {"mine": {"extends": ["default"]}}}, "profile 'mine': extends"),
        ({"profiles": {"mine": {"extends": {}}}}, "profile 'mine': extends"),
        ({"profiles": {1: {"extends": "default"}}}, "profile 1: a name must be text"),
        ({"profiles": {False: {"extends": "default"}, "x": {}}}, "profile False: a name must be"),
        ({"profiles": {"default": {"limit": 0}}}, "profile 'default': limit"),
        ({"profiles": {"default": None}}, "profile 'default': must be a mapping"),
        ({"profiles": None}, "profiles must be a mapping"),
        ({"profile": {}}, "'profile' cannot be configured"),
    ],
)
def test_whatever_is_wrong_the_profiles_before_go_on_and_it_is_said(
    service: TriviumService, user_config: Any, said: str
) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 13}}})

    service.reconfigure(user_config)

    assert service.profiles["default"].limit == 13
    assert service.refused_profiles.startswith(said)


def test_an_error_that_nobody_thought_of_ends_nothing_and_is_not_quoted() -> None:
    service = TriviumService(NO_USE_CASES, OddBook.load())
    before = service.profiles

    service.reconfigure({"profiles": {}})

    assert service.profiles is before
    assert service.refused_profiles == "they cannot be read; the log has the error"


def test_what_is_mended_is_no_longer_refused(service: TriviumService) -> None:
    service.reconfigure({"profiles": {"default": {"limit": 0}}})
    service.reconfigure({"profiles": {"default": {"limit": 15}}})

    assert (service.profiles["default"].limit, service.refused_profiles) == (15, "")
