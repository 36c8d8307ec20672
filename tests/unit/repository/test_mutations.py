"""The catalog of mutants applies to the tree as it is, and names tests that exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.mutations.catalog import ROOT, CatalogError, Entry, entries


@cache
def names_in(file: str) -> set[str]:
    """The names of the functions of a file."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse((ROOT / file).read_text()).body
    return {node.name for node in body if isinstance(node, functions)}


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.id)
def test_entry_applies_to_the_tree_and_names_existing_tests(entry: Entry) -> None:
    for mutant in entry.mutants(ROOT):
        text = (ROOT / mutant.file).read_text()
        mutated = mutant.applied_to(text)
        assert mutated != text
        if mutant.file.endswith(".py"):
            ast.parse(mutated)
    assert entry.tests
    for test in entry.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).is_file()
        assert not name or name.partition("[")[0] in names_in(file)


FIELDS = {
    "id": "one",
    "guard": "it is two",
    "file": "module.py",
    "find": "2",
    "replace": "3",
    "tests": ["tests/test_two.py"],
}
MODULE = """
class Numbers:
    def two(self) -> int:
        return 2

TWO = 2
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "module.py").write_text(MODULE)
    return tmp_path


@pytest.mark.parametrize(
    ("within", "mutated"),
    [
        ("Numbers.two", MODULE.replace("return 2", "return 3")),
        ("TWO", MODULE.replace("TWO = 2", "TWO = 3")),
    ],
)
def test_replacement_stays_within_the_named_definition(
    tree: Path, within: str, mutated: str
) -> None:
    [mutant] = Entry.of({**FIELDS, "within": within}).mutants(tree)

    assert mutant.applied_to(MODULE) == mutated


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "occurs 2 times"),
        ({"within": "Numbers.three"}, "nothing to replace"),
        ({"find": "4"}, "nothing to replace"),
        ({"file": "gone.py"}, "nothing to replace"),
        ({"pattern": "2"}, "exactly one of find and pattern"),
        ({"needs": ["luck"]}, "needs luck is unknown"),
        ({"why": "because"}, "why is unknown"),
    ],
)
def test_malformed_entry_is_an_error(tree: Path, changes: dict[str, object], reason: str) -> None:
    with pytest.raises(CatalogError, match=reason):
        list(Entry.of({**FIELDS, **changes}).mutants(tree))
