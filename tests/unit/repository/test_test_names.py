"""The name of a test is its subject, the condition and the result: CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.tracked_files import ROOT, tracked_files

PREFIX = "test_"
MAX_WORDS = 8
ARTICLES = ("a", "an", "the")
"""They are not counted, nor are numbers."""

PRONOUN = re.compile(
    r"both|each|everything|how|it|none|nobody|nothing|one|somebody|something|that|there|these"
    r"|they|those|what|when|where|which|who|whom|whose|why"
)
"""A name that begins with one of them hides its subject."""


def fault(name: str) -> str:
    """What is wrong with a name; empty if nothing is."""
    words = [word for word in name.removeprefix(PREFIX).split("_") if word not in ARTICLES]
    if PRONOUN.fullmatch(words[0]):
        return f"begins with {words[0]!r}"
    count = sum(not word.isdigit() for word in words)
    return f"has {count} words" if count > MAX_WORDS else ""


def test_names_of_tests_have_subject_condition_and_result() -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    faults = [
        f"{path}:{node.lineno}: {node.name} {found}"
        for path in tracked_files("tests/*.py")
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, functions) and node.name.startswith(PREFIX)
        if (found := fault(node.name))
    ]

    assert faults == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test_unreachable_postgres_fails_the_request", ""),
        ("test_a_revoked_key_is_rejected_within_5_s", ""),
        ("test_what_is_sensitive_is_not_sent", "begins with 'what'"),
        ("test_the_one_that_gives_up_is_cancelled", "begins with 'one'"),
        ("test_leg_of_nine_words_is_not_accepted_here_either", "has 9 words"),
    ],
)
def test_fault_of_a_name_is_found(name: str, expected: str) -> None:
    assert fault(name) == expected
