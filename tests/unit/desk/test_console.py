from __future__ import annotations

import io

from serving.desk.console import CLEAR_LINE, Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def reported(stream: io.StringIO, *lines: str) -> str:
    console = Console(stream, "trivium")
    for line in lines:
        console(line)
    return stream.getvalue()


FETCHING = [f"fetching: {done} of 216 jars" for done in range(1, 217)]


def test_steps_take_one_line_of_a_terminal() -> None:
    shown = reported(Terminal(), "starting", *FETCHING, "started")

    assert shown.count("\n") == 3
    *_, last = shown.split("\n")[1].split(CLEAR_LINE)
    assert last == "trivium: fetching: 216 of 216 jars"
    assert shown.startswith("trivium: starting\ntrivium: fetching: 1 of 216 jars")
    assert shown.endswith("jars\ntrivium: started\n")


def test_a_line_between_steps_replaces_the_step() -> None:
    shown = reported(Terminal(), *FETCHING[:2], "stopping")

    assert shown.endswith(f"trivium: fetching: 2 of 216 jars{CLEAR_LINE}trivium: stopping\n")


def test_a_log_has_a_few_of_many_steps_and_the_last() -> None:
    shown = reported(io.StringIO(), "starting", *FETCHING, "started")

    assert shown.splitlines() == [
        "trivium: starting",
        *(f"trivium: fetching: {done} of 216 jars" for done in (54, 108, 162, 216)),
        "trivium: started",
    ]


def test_a_log_has_every_one_of_few_steps() -> None:
    shown = reported(io.StringIO(), "1 of 2", "2 of 2")

    assert shown == "trivium: 1 of 2\ntrivium: 2 of 2\n"
