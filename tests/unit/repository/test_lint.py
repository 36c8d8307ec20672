"""Each lint rule finds what is wrong, and nothing else; each mutant applies to the tree."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests import lint
from tests.mutations import Entry, entries
from tests.support.tracked_files import ROOT


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test_unreachable_postgres_fails_the_request", ""),
        ("test_a_revoked_key_is_rejected_within_5_s", ""),
        ("test_what_is_sensitive_is_not_sent", "begins with 'what'"),
        ("test_the_one_that_gives_up_is_cancelled", "begins with 'one'"),
        ("test_leg_finds_what_others_miss", "has 'what'"),
        ("test_leg_be" + "side_another_is_reported", "has the retired word"),
        ("test_leg_of_nine_words_is_not_accepted_here_either", "has 9 words"),
    ],
)
def test_fault_of_a_name_is_found(name: str, expected: str) -> None:
    assert lint.fault_of_name(name).startswith(expected)
    assert bool(lint.fault_of_name(name)) is bool(expected)


@pytest.mark.parametrize(
    ("name", "size", "allowed"),
    [
        ("README.md", 7_001, 7_000),
        ("docs/gpu.md", 15_361, 15_360),
        ("clients/mcp/README.md", 15_361, 15_360),
    ],
)
def test_page_above_its_bound_is_named(name: str, size: int, allowed: int) -> None:
    [fault] = lint.too_long(name, size)

    assert fault.startswith(f"{name} has {size} bytes, at most {allowed}")
    assert list(lint.too_long(name, allowed)) == []
    assert list(lint.too_long("docs/rpcs.md", 100_000)) == []  # a reference


def test_retired_word_is_found_with_its_line() -> None:
    retired = "class As" + "Told:"  # which this file may not have in one piece

    [fault] = lint.retired_words(f"fine\n{retired}\n", "a.py")

    assert fault == f"a.py:2: the retired word 'told': {retired}"


def test_docstring_beginning_with_a_clause_is_found() -> None:
    text = '"""Legs."""\nDEPTH = 5\n"""How many are found."""\nNAME = "Who"\n'

    assert list(lint.clauses(text, "a.py")) == ["a.py:3: begin with a noun: How many are found."]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`TRIVIUM_SERVE__NOTHING`", "no setting TRIVIUM_SERVE__NOTHING"),
        ("`serving/nothing.py`", "no serving/nothing.py"),
        ("`tests/lint.py::test_nothing`", "tests/lint.py has no test_nothing"),
        ("[a](nothing.md)", "leads nowhere"),
        ("[a](guarantees.md#nothing)", "leads nowhere"),
        ("| one | `tests/lint.py` | `nothing` |", "tests/lint.py has no nothing"),
        ("x" * 120, "a line has 120 characters"),
    ],
)
def test_fault_of_a_page_is_found(text: str, fault: str) -> None:
    [found] = lint.faults_of_page(ROOT / "docs/any.md", f"{text}\n")

    assert fault in found


def test_page_that_names_existing_things_is_faultless() -> None:
    named = "`TRIVIUM_SERVE__GRPC_PORT`, `tests/lint.py`, [a](guarantees.md#above-capacity)"
    text = f"{named}\n| a | `tests/lint.py` | `main` |\n"

    assert [*lint.faults_of_page(ROOT / "docs/any.md", text)] == []


def test_roles_without_a_row_of_the_admin_are_none() -> None:
    page = (ROOT / "docs/security.md").read_text()

    assert lint.table_of_roles(page)["Retrieve"] == "reader"
    assert lint.table_of_roles(page.replace("everything", "nothing")) == {}


def test_pin_without_a_hash_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/desk.txt").write_text("# pins\na==1 \\\n  --hash=sha256:1\nb==2\n")
    (tmp_path / "Makefile").write_text(
        "x:\n\tpip install -r a.txt\n\tpip install --require-hashes -r b.txt\n"
    )
    monkeypatch.setattr(lint, "ROOT", tmp_path)

    assert [each.partition(":")[0] for each in lint.pins()] == ["desk.txt", "Makefile"]


# ---------------------------------------------------------------- mutations


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.id)
def test_entry_applies_to_the_tree_and_names_existing_tests(entry: Entry) -> None:
    for mutant in entry.mutants(ROOT):
        assert mutant.mutated != (ROOT / mutant.file).read_text()
        if mutant.file.endswith(".py"):
            ast.parse(mutant.mutated)
    assert entry.tests
    for test in entry.tests:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}" in (ROOT / file).read_text()


MODULE = """
class Numbers:
    def two(self) -> int:
        return 2

TWO = 2
"""


def mutated(tree: Path, **fields: Any) -> str:
    (tree / "module.py").write_text(MODULE)
    given = {"file": "module.py", "find": "2", **fields}
    [mutant] = Entry(id="one", guard="is two", replace="3", tests=["a.py"], **given).mutants(tree)
    return mutant.mutated


def test_replacement_stays_within_the_named_definition(tmp_path: Path) -> None:
    assert mutated(tmp_path, within="Numbers.two") == MODULE.replace("return 2", "return 3")
    assert mutated(tmp_path, within="TWO") == MODULE.replace("TWO = 2", "TWO = 3")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "occurs 2 times"),
        ({"within": "Numbers.three"}, "occurs 0 times"),
        ({"pattern": "2"}, "either find or pattern"),
        ({"needs": ["luck"]}, "needs of"),
    ],
)
def test_malformed_entry_is_an_error(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        mutated(tmp_path, **changes)
