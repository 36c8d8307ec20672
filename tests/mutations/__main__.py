"""Removes guards one at a time, and fails unless a test notices each: `make mutants`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutations.catalog import ROOT, CatalogError, Mutant, entries
from tests.mutations.runner import Copy, Verdict, run, unmutated_failure

SHOWN_LINES = 30
"""Of pytest's output, for a mutant that is not killed."""


def main() -> int:
    """Runs what the command line asks for; returns the exit code."""
    options = _parsed(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what runs is ended
    try:
        mutants = _chosen(options.ids)
    except CatalogError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        print(*(f"{each.id}: {each.guard} ({each.file})" for each in mutants), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="trv-mutants-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs under another account if we are root
        copies = [Copy(Path(folder) / str(number)) for number in range(options.jobs)]
        print(f"{len(mutants)} mutants; first their tests without any", flush=True)
        if failure := unmutated_failure(copies[0], mutants):
            print(failure, "these tests fail without a mutant", sep="\n", file=sys.stderr)
            return 1
        return _run(mutants, copies, options.limit)


def _run(mutants: Sequence[Mutant], copies: Sequence[Copy], limit_s: float) -> int:
    alive: list[str] = []
    for number, outcome in enumerate(run(mutants, copies, limit_s), 1):
        mutant = outcome.mutant
        print(
            f"[{number}/{len(mutants)}] {outcome.verdict}: {mutant.id} ({outcome.seconds:.1f} s)",
            flush=True,
        )
        if outcome.verdict is not Verdict.KILLED:
            alive.append(mutant.id)
            print(f"  {mutant.guard}: {mutant.file}, {mutant.replacement!r}")
            print(*outcome.output.splitlines()[-SHOWN_LINES:], sep="\n")
    if alive:
        print(f"{len(alive)} of {len(mutants)} not killed; to run them again:")
        print(f'make mutants ONLY="{" ".join(alive)}"')
        return 1
    print(f"all {len(mutants)} killed")
    return 0


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="entries or mutants; default: all")
    add("--jobs", type=int, default=1, metavar="N", help="how many run at once; default: 1")
    add("--limit", type=float, default=300, metavar="SECONDS", help="for each; default: 300")
    add("--list", action="store_true", help="print them and end")
    return parser.parse_args(arguments)


def _chosen(ids: Sequence[str]) -> list[Mutant]:
    """The mutants to run.

    Raises:
        CatalogError: An entry does not apply, or an id is unknown.
    """
    mutants = [(entry, mutant) for entry in entries() for mutant in entry.mutants(ROOT)]
    known = {name for entry, each in mutants for name in (entry.id, each.id)}
    if unknown := [id_ for id_ in ids if id_ not in known]:
        raise CatalogError(unknown[0], "there is no such entry")
    return [each for entry, each in mutants if not ids or {entry.id, each.id} & {*ids}]


if __name__ == "__main__":
    sys.exit(main())
