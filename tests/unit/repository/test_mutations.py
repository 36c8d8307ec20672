"""The catalog of mutants applies to the tree as it is, and names tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.mutations import ROOT, Entry, entries


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
