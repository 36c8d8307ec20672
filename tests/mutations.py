"""Proof that tests guard what they claim to: each mutant removes a guard, and a test must fail.

`python -m tests.mutations [ID ...]` applies the mutants of `tests/mutations.toml`, or those named,
one at a time in a copy of the tree and runs their tests there. `--list` prints them.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CATALOG = Path(__file__).with_suffix(".toml")
NEEDS = frozenset({"postgres", "neo4j", "ray", "model", "gpu"})
"""What an entry may need: the markers of tests that start a service or load a model."""

NOT_COPIED = (".*", "__pycache__", "results", "node_modules")
LIMIT_S = 300
SHOWN_LINES = 30
"""Of pytest's output, for a mutant that is not killed."""


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
    tests: Sequence[str]
    within: str = ""
    find: str = ""
    pattern: str = ""
    needs: Sequence[str] = ()

    def mutants(self, root: Path) -> list[Mutant]:
        """The mutants of this entry in a tree.

        Raises:
            ValueError: It needs something unknown, applies nowhere, or `find` occurs repeatedly.
        """
        if bool(self.find) is bool(self.pattern) or not NEEDS.issuperset(self.needs):
            raise ValueError(f"{self.id}: either find or pattern, and needs of {sorted(NEEDS)}")
        found = [
            (path, text, match)
            for path in sorted(root.glob(self.file))
            for text in [path.read_text(encoding="utf-8")]
            for match in self._matches(text)
        ]
        if not found or (self.find and len(found) > 1):
            raise ValueError(f"{self.id}: occurs {len(found)} times in {self.file}")
        return [
            Mutant(
                entry=self,
                id=f"{self.id}-{number}" if self.pattern else self.id,
                file=str(path.relative_to(root)),
                mutated=text[: match.start()]
                + (match.expand(self.replace) if self.pattern else self.replace)
                + text[match.end() :],
            )
            for number, (path, text, match) in enumerate(found, 1)
        ]

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        start, end = _extent(text, self.within) if self.within else (0, len(text))
        expression = self.pattern or re.escape(self.find)
        return re.compile(expression, re.MULTILINE).finditer(text, start, end)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one file; at least one of the tests of its entry must fail with it."""

    entry: Entry
    id: str
    file: str
    mutated: str


def entries() -> list[Entry]:
    """All entries; raises `TypeError` for a field that is missing or unknown."""
    return [Entry(**fields) for fields in tomllib.loads(CATALOG.read_text())["mutant"]]


def _extent(text: str, name: str) -> tuple[int, int]:
    """From where to where a definition reaches, in characters; nowhere if there is none."""
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        body = [each for each in getattr(node, "body", []) if part in _names(each)]
        if not body:
            return 0, 0
        node = body[0]
    assert isinstance(node, ast.stmt), "a name has a part"
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1]))
    return start, start + sum(map(len, lines[node.lineno - 1 : node.end_lineno]))


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


def run_tests(folder: Path, tests: Iterable[str], needs: Iterable[str]) -> tuple[int, str]:
    """Runs tests in a copy of the tree; returns pytest's exit code, and what it printed."""
    command = [sys.executable, "-m", "pytest", *tests, "-q", "-x", "-p", "no:cacheprovider"]
    # That a test fails is enough: no smaller example is looked for, and no difference shown.
    command += ["--hypothesis-profile", "mutants", "--assert=plain"]
    command += ["-m", f"not ({' or '.join(sorted(NEEDS.difference(needs)))})"]
    command += ["--require", ",".join(needs)]
    clients = sorted(each.parent for each in folder.glob("clients/*/pyproject.toml"))
    paths = os.pathsep.join(map(str, (folder, *clients)))
    environment = {**os.environ, "PYTHONPATH": paths}  # noqa: TID251 - for a child
    # Bytecode is matched by size and seconds, which two mutants may have in common.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, timeout=LIMIT_S, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end after {LIMIT_S} s"
    return done.returncode, done.stdout + done.stderr


def survives(folder: Path, mutant: Mutant) -> str:
    """What pytest printed, unless a test fails with the mutant, as it should."""
    path = folder / mutant.file
    unchanged = path.read_text(encoding="utf-8")
    path.write_text(mutant.mutated, encoding="utf-8")
    code, output = run_tests(folder, mutant.entry.tests, mutant.entry.needs)
    path.write_text(unchanged, encoding="utf-8")
    return "" if code == pytest.ExitCode.TESTS_FAILED else output


def main() -> int:
    """Runs what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="entries or mutants; default: all")
    parser.add_argument("--list", action="store_true", help="print them and end")
    options = parser.parse_args()
    mutants = [
        mutant
        for entry in entries()
        for mutant in entry.mutants(ROOT)
        if not options.ids or {entry.id, mutant.id} & {*options.ids}
    ]
    if options.list:
        print(*(f"{each.id}: {each.entry.guard} ({each.file})" for each in mutants), sep="\n")
        return 0
    if not mutants:
        parser.error("there is no such entry")
    with tempfile.TemporaryDirectory(prefix="trv-mutants-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)  # PostgreSQL runs under another account if we are root
        folder = Path(made) / "copy"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
        return _run(folder, mutants)


def _run(folder: Path, mutants: Sequence[Mutant]) -> int:
    needs = {need for each in mutants for need in each.entry.needs}
    tests = sorted({test for each in mutants for test in each.entry.tests})
    print(f"{len(mutants)} mutants; first their tests without any", flush=True)
    code, output = run_tests(folder, tests, needs)
    if code:
        print(output, "these tests fail without a mutant", sep="\n")
        return 1
    alive: list[str] = []
    for number, mutant in enumerate(mutants, 1):
        output = survives(folder, mutant)
        outcome = "survived" if output else "killed"
        print(f"[{number}/{len(mutants)}] {outcome}: {mutant.id}", flush=True)
        if output:
            alive.append(mutant.id)
            print(
                f"  {mutant.entry.guard}: {mutant.file}",
                *output.splitlines()[-SHOWN_LINES:],
                sep="\n",
            )
    if alive:
        print(f'{len(alive)} not killed; again: make mutants ONLY="{" ".join(alive)}"')
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
