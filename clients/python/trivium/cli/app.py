"""The `trivium` command: global options and subcommands."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click
from click.core import ParameterSource

from trivium.cli.ask import ask
from trivium.cli.connection import Connection, tenant_option
from trivium.cli.exits import ErrorBoundary, exit_codes_help
from trivium.cli.files.export import export
from trivium.cli.files.imports import import_
from trivium.cli.files.ingest import ingest
from trivium.cli.files.recollect import recollect
from trivium.cli.stored import forget, show, stats
from trivium.cli.tuning import compare, profiles, why
from trivium.wire.credentials import TLS

DEFAULT_ADDRESS = "127.0.0.1:9000"
PEM = click.Path(exists=True, dir_okay=False, path_type=Path)


def from_the_environment(ctx: click.Context, option: click.Parameter, value: str) -> str:
    """Rejects a secret in the command line, which every account of the machine can read."""
    assert option.name is not None, "every option has a name"
    if ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
        raise click.UsageError("others can read a command line: use --token-file or TRIVIUM_TOKEN")
    return value


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
    help="The address of the service.",
)
@click.option("--tenant", envvar="TRIVIUM_TENANT", show_envvar=True, help="The tenant.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="The deadline of each call.  [default: 2 for reads, 60 for writes]",
)
@click.option(
    "--token",
    envvar="TRIVIUM_TOKEN",
    default="",
    hidden=True,
    callback=from_the_environment,
)
@click.option(
    "--token-file",
    envvar="TRIVIUM_TOKEN_FILE",
    type=click.File(),
    show_envvar=True,
    help="The file with your key or token. The variable TRIVIUM_TOKEN can hold it instead.",
)
@click.option(
    "--tls/--no-tls",
    envvar="TRIVIUM_TLS",
    default=False,
    show_envvar=True,
    help="Encrypt the connection.",
)
@click.option(
    "--tls-ca", envvar="TRIVIUM_TLS_CA", type=PEM, show_envvar=True, help="Authorities, in PEM."
)
@click.option(
    "--tls-certificate",
    envvar="TRIVIUM_TLS_CERTIFICATE",
    type=PEM,
    show_envvar=True,
    help="Your certificate, in PEM.",
)
@click.option(
    "--tls-key", envvar="TRIVIUM_TLS_KEY", type=PEM, show_envvar=True, help="Its key, in PEM."
)
@click.pass_context
def trivium(
    ctx: click.Context,
    *,
    address: str,
    tenant: str | None,
    timeout: float | None,
    token: str,
    token_file: TextIO | None,
    tls: bool,
    tls_ca: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
) -> None:
    """Stores conversations and retrieves what is relevant to a question."""
    if token_file is not None:
        token = token_file.read().strip()
    encrypted = tls or tls_ca is not None or tls_certificate is not None or tls_key is not None
    try:
        files = TLS(ca=tls_ca, certificate=tls_certificate, key=tls_key)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    ctx.obj = Connection(
        address=address,
        tenant=tenant,
        timeout=timeout,
        token=token,
        tls=files if encrypted else None,
    )


COMMANDS = (
    ingest,
    export,
    import_,
    ask,
    recollect,
    show,
    stats,
    forget,
    profiles,
    compare,
    why,
)

for command in COMMANDS:
    command.params.append(tenant_option())
    trivium.add_command(command)
