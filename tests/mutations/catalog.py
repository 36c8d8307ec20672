"""The mutants of `tests/mutations.toml`, and where each applies in the tree."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "tests" / "mutations.toml"
NEEDS = ("postgres", "neo4j", "ray", "model", "gpu")
"""What an entry may need: the markers of tests that start a service or load a model."""

_REQUIRED = {"id", "guard", "file", "replace", "tests"}
_OPTIONAL = {"within", "find", "pattern", "needs"}


class CatalogError(Exception):
    """An entry is malformed or does not apply to the tree.

    Attributes:
        entry: The id of the entry.
        reason: What is wrong with it.
    """

    def __init__(self, entry: str, reason: str) -> None:
        super().__init__(f"{entry}: {reason}")
        self.entry = entry
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file, and the tests of which at least one must fail with it.

    `start` and `end` delimit what `replacement` replaces, in characters.
    """

    id: str
    guard: str
    file: str
    start: int
    end: int
    replacement: str
    tests: tuple[str, ...]
    needs: frozenset[str]

    def applied_to(self, text: str) -> str:
        """The text of the file with the change."""
        return text[: self.start] + self.replacement + text[self.end :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the catalog: one mutant, or with `pattern` one for each match.

    Attributes:
        file: A path from the root; with `pattern` it may be a glob.
        within: The qualified name of the function, class or constant to look in, or the file if
            it is empty.
        find: The text to replace, which must occur once there.
        pattern: A regular expression instead of `find`; `replace` may refer to its groups.
    """

    id: str
    guard: str
    file: str
    replace: str
    tests: tuple[str, ...]
    within: str = ""
    find: str = ""
    pattern: str = ""
    needs: frozenset[str] = frozenset()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Entry:
        """Reads an entry.

        Raises:
            CatalogError: A field is missing, unknown, or of no effect.
        """
        name = str(fields.get("id"))
        if missing := _REQUIRED - fields.keys():
            raise CatalogError(name, f"{min(missing)} is missing")
        if unknown := fields.keys() - _REQUIRED - _OPTIONAL:
            raise CatalogError(name, f"{min(unknown)} is unknown")
        if ("find" in fields) == ("pattern" in fields):
            raise CatalogError(name, "exactly one of find and pattern is required")
        if undefined := set(fields.get("needs", ())) - set(NEEDS):
            raise CatalogError(name, f"needs {min(undefined)} is unknown")
        values = {**fields, "tests": tuple(fields["tests"])}
        return cls(**{**values, "needs": frozenset(fields.get("needs", ()))})

    def mutants(self, root: Path) -> Iterator[Mutant]:
        """The mutants of this entry in a tree.

        Raises:
            CatalogError: It applies nowhere, or `find` occurs more than once.
        """
        matches = [
            (path, match)
            for path in sorted(root.glob(self.file))
            for match in self._matches(path.read_text(encoding="utf-8"))
        ]
        if not matches:
            raise CatalogError(self.id, f"does not apply: nothing to replace in {self.file}")
        if self.find and len(matches) > 1:
            raise CatalogError(self.id, f"find occurs {len(matches)} times, must be once")
        for number, (path, match) in enumerate(matches, 1):
            yield Mutant(
                id=self.id if self.find else f"{self.id}-{number}",
                guard=self.guard,
                file=str(path.relative_to(root)),
                start=match.start(),
                end=match.end(),
                replacement=self.replace if self.find else match.expand(self.replace),
                tests=self.tests,
                needs=self.needs,
            )

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        start, end = _extent(text, self.within) if self.within else (0, len(text))
        expression = self.pattern or re.escape(self.find)
        return re.compile(expression, re.MULTILINE).finditer(text, start, end)


def _extent(text: str, name: str) -> tuple[int, int]:
    """From where to where a definition reaches, in characters; nowhere if there is none."""
    body = _body(text)
    node: ast.stmt | None = None
    for part in name.split("."):
        node = next((each for each in body if part in _names(each)), None)
        if node is None:
            return 0, 0
        body = getattr(node, "body", [])
    assert node is not None
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1]))
    return start, start + sum(map(len, lines[node.lineno - 1 : node.end_lineno]))


@cache
def _body(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def _names(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def entries(catalog: Path = CATALOG) -> list[Entry]:
    """All entries.

    Raises:
        CatalogError: One is malformed, or an id occurs twice.
    """
    found = [
        Entry.of(fields) for fields in tomllib.loads(catalog.read_text(encoding="utf-8"))["mutant"]
    ]
    seen: set[str] = set()
    for entry in found:
        if entry.id in seen:
            raise CatalogError(entry.id, "the id occurs twice")
        seen.add(entry.id)
    return found
