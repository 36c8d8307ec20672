"""The `trivium` command: its global options and its subcommands."""

from __future__ import annotations

import click

from trivium.cli.ask import ask
from trivium.cli.connection import Connection
from trivium.cli.exits import ErrorBoundary, exit_codes_help
from trivium.cli.ingest import ingest
from trivium.cli.stored import forget, show, stats
from trivium.cli.tuning import compare, profiles, why

DEFAULT_ADDRESS = "127.0.0.1:9000"


@click.group(
    cls=ErrorBoundary,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=exit_codes_help(),
)
@click.option(
    "--address",
    envvar="TRIVIUM_ADDRESS",
    default=DEFAULT_ADDRESS,
    show_default=True,
    show_envvar=True,
    help="Where the service is.",
)
@click.option("--tenant", envvar="TRIVIUM_TENANT", show_envvar=True, help="Whose memory it is.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long a call may take.  [default: 2 to read, 60 to write]",
)
@click.pass_context
def trivium(ctx: click.Context, address: str, tenant: str | None, timeout: float | None) -> None:
    """Stores conversations and asks what is remembered of them."""
    ctx.obj = Connection(address=address, tenant=tenant, timeout=timeout)


for command in (ingest, ask, show, stats, forget, profiles, compare, why):
    trivium.add_command(command)
