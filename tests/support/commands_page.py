"""`docs/commands.md` from the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from serving.__main__ import main as server
from tests.support.markdown import cell, filled, table
from trivium.cli.app import trivium as client
from trivium_importers.command import trivium_import as importers

PAGE = Path(__file__).parents[2] / "docs/commands.md"
INTRODUCTION = """\
`trivium` is the command line of the client (`pip install 'trivium-client[cli]'`), `trivium-server`
that of the service (`pip install trivium-server`), and `trivium-import`, of `trivium-importers`,
stores what other memories export. Each has `--help`.
"""
PROGRAMS = {"trivium": client, "trivium-server": server, "trivium-import": importers}


def text() -> str:
    """The whole page."""
    written = "<!-- Written by `make docs` from the commands: edit these. -->\n"
    parts = [f"# Commands\n\n{written}\n{INTRODUCTION}"]
    for name, program in PROGRAMS.items():
        parts.extend(_sections(program, click.Context(program, info_name=name), "##"))
    return "\n".join(parts)


def _sections(command: click.Command, context: click.Context, marks: str) -> Iterator[str]:
    """The command, then each of its own."""
    yield f"{marks} {context.command_path}\n\n{_prose(command)}{_options(command, context)}"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                within = click.Context(inner, info_name=name, parent=context)
                yield from _sections(inner, within, "###")


def _prose(command: click.Command) -> str:
    return filled(inspect.cleandoc(command.help or "").replace("\b\n", ""))


def _options(command: click.Command, context: click.Context) -> str:
    arguments = " ".join(
        each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)
    )
    usage = f"\nArguments: `{arguments}`\n" if arguments else ""
    options = [each for each in command.params if isinstance(each, click.Option)]
    records = filter(None, (each.get_help_record(context) for each in options))
    return usage + table(("option", "what"), ((f"`{name}`", cell(what)) for name, what in records))
