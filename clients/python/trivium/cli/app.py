"""The `trivium` command: global options and subcommands."""

from __future__ import annotations

import click

from trivium.cli.admin import audit, tenants
from trivium.cli.ask import ask
from trivium.cli.connection import connection_options, tenant_option
from trivium.cli.exits import GroupBoundary, exit_codes_help
from trivium.cli.files.export import export
from trivium.cli.files.ingest import ingest
from trivium.cli.files.recollect import recollect
from trivium.cli.stored import describe, forget, patch, show, stats, watch
from trivium.cli.tuning import compare, profiles, why


@click.group(
    cls=GroupBoundary,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=exit_codes_help(),
)
@connection_options
def trivium() -> None:
    """Stores conversations and retrieves what is relevant to a question."""


COMMANDS = (
    ingest,
    export,
    ask,
    recollect,
    show,
    describe,
    watch,
    stats,
    tenants,
    audit,
    patch,
    forget,
    profiles,
    compare,
    why,
)

for command in COMMANDS:
    command.params.append(tenant_option())
    trivium.add_command(command)
