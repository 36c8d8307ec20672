"""Exit codes, and the printing of errors."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import click

from trivium.errors import (
    AuthenticationError,
    ConflictError,
    DeadlineError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PreconditionError,
    TriviumError,
    UnavailableError,
)


class Exit(IntEnum):
    """The exit codes."""

    OK = 0
    UNSATISFIED = 1
    USAGE = 2
    REJECTED = 3
    UNAVAILABLE = 4
    DEADLINE = 5
    REQUEST = 6
    SERVER = 7
    INTERRUPTED = 130


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "success",
    Exit.UNSATISFIED: "something was not found, or could not be verified",
    Exit.USAGE: "the command line is invalid, or a file cannot be read",
    Exit.REJECTED: "some lines or items were rejected; the others are stored",
    Exit.UNAVAILABLE: "the service is unreachable or overloaded; try again",
    Exit.DEADLINE: "the deadline passed",
    Exit.REQUEST: "the service rejected the request or the credentials",
    Exit.SERVER: "the service failed",
    Exit.INTERRUPTED: "interrupted",
}

_BY_CLASS: Mapping[type[TriviumError], Exit] = {
    UnavailableError: Exit.UNAVAILABLE,
    OverloadedError: Exit.UNAVAILABLE,
    DeadlineError: Exit.DEADLINE,
    InvalidRequestError: Exit.REQUEST,
    PreconditionError: Exit.REQUEST,
    AuthenticationError: Exit.REQUEST,
    NotFoundError: Exit.UNSATISFIED,
    ConflictError: Exit.REQUEST,
}


def exit_of(error: TriviumError) -> Exit:
    """The exit code of a failed call."""
    return _BY_CLASS.get(type(error), Exit.SERVER)


def describe(error: TriviumError) -> str:
    """Describes an error in a few lines."""
    lines = [_headline(error)]
    lines += [f"  {field}: {description}" for field, description in error.violations]
    if error.retry_delay is not None:
        lines.append(f"  try again in {error.retry_delay.total_seconds():g} s")
    if error.details.request_id:
        lines.append(f"  in the server's log: {error.details.request_id}")
    return "\n".join(lines)


def _headline(error: TriviumError) -> str:
    """The error without the fields, which follow it and which the message repeats."""
    if not error.violations:
        return str(error)
    count = len(error.violations)
    return f"{error.reason or error.code.name}: {count} invalid field{'s' if count > 1 else ''}"


def exit_codes_help() -> str:
    """The table of exit codes, for the end of `--help`."""
    rows = [f"{code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    # \b keeps click from rewrapping.
    return "\b\nExit codes:\n" + "\n".join(rows)


class ErrorBoundary(click.Command):
    """A command that exits with a code and a message, never with a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except TriviumError as error:
            click.echo(f"Error: {describe(error)}", err=True)
            ctx.exit(exit_of(error))
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(Exit.INTERRUPTED)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise click.UsageError(f"{error.filename or 'I/O'}: {error.strerror}") from None


class GroupBoundary(ErrorBoundary, click.Group):
    """A group whose commands exit so."""
