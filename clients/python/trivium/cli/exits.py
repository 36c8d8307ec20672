"""How the command line ends: its exit codes, and errors as one line on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import click

from trivium.errors import (
    AuthenticationError,
    DeadlineError,
    InvalidRequestError,
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
    REFUSED = 6
    SERVER = 7
    INTERRUPTED = 130


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "all went well",
    Exit.UNSATISFIED: "something asked for was not found, or could not be verified",
    Exit.USAGE: "the command line is wrong, or a file cannot be read",
    Exit.REJECTED: "some lines or items were rejected; the others are stored",
    Exit.UNAVAILABLE: "the service cannot be reached or is overloaded; try again",
    Exit.DEADLINE: "the time ran out",
    Exit.REFUSED: "the service refused the request or the credentials",
    Exit.SERVER: "the service failed",
    Exit.INTERRUPTED: "interrupted",
}

_BY_CLASS: Mapping[type[TriviumError], Exit] = {
    UnavailableError: Exit.UNAVAILABLE,
    OverloadedError: Exit.UNAVAILABLE,
    DeadlineError: Exit.DEADLINE,
    InvalidRequestError: Exit.REFUSED,
    PreconditionError: Exit.REFUSED,
    AuthenticationError: Exit.REFUSED,
}


def exit_of(error: TriviumError) -> Exit:
    """The exit code of a failed call."""
    return _BY_CLASS.get(type(error), Exit.SERVER)


def describe(error: TriviumError) -> str:
    """Says in a few lines what failed and what to do."""
    lines = [str(error)]
    lines += [f"  {field}: {description}" for field, description in error.violations]
    if error.retry_delay is not None:
        lines.append(f"  try again in {error.retry_delay.total_seconds():g} s")
    if error.details.request_id:
        lines.append(f"  in the server's log: {error.details.request_id}")
    return "\n".join(lines)


def exit_codes_help() -> str:
    """The table of exit codes, for the end of `--help`."""
    rows = [f"{code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    # \b keeps click from rewrapping.
    return "\b\nExit codes:\n" + "\n".join(rows)


class ErrorBoundary(click.Group):
    """A group whose commands end with an exit code and a message, never with a traceback."""

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
