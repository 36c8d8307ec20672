"""The values of the global options: address, tenant, timeout and credentials."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

import click
from click.core import ParameterSource

from trivium.cli.output import plain
from trivium.client import Client
from trivium.errors import TriviumError
from trivium.wire.channel import DEFAULT_TIMEOUT_S, DEFAULT_WRITE_TIMEOUT_S
from trivium.wire.credentials import TLS

DEFAULT_ADDRESS = "127.0.0.1:9000"
MAX_TIMEOUT_S = 24 * 60 * 60
"""Far beyond what any call takes; gRPC takes an endless deadline for one that has passed."""
PEM = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Address and credentials of the service; `timeout` None means the client's defaults."""

    address: str
    tenant: str | None
    timeout: float | None
    token: str = field(default="", repr=False)
    tls: TLS | None = None
    token_without_tls: bool = False
    time_zone: str = ""

    def tenant_or_fail(self) -> str:
        """The tenant of the global option; may be empty with a token, which can be bound to one.

        Raises:
            click.UsageError: It is missing.
        """
        if not self.tenant and self.token:
            return ""
        if not self.tenant:
            raise click.UsageError("missing --tenant or TRIVIUM_TENANT")
        return self.tenant

    def open(self, tenant: str | None = None) -> Client:
        """Opens a client for `tenant`, by default that of the global option.

        Raises:
            click.UsageError: The credentials cannot be used.
        """
        tenant = tenant or self.tenant_or_fail()
        try:
            return Client(
                self.address,
                tenant=tenant,
                token=self.token,
                tls=self.tls,
                token_without_tls=self.token_without_tls,
                timeout=self.timeout or DEFAULT_TIMEOUT_S,
                write_timeout=self.timeout or DEFAULT_WRITE_TIMEOUT_S,
                time_zone=self.time_zone,
            )
        except (ValueError, OSError) as error:
            raise click.UsageError(str(error)) from error


def says_unknown(client: Client) -> bool:
    """Whether nothing was ever stored for the tenant, which it says; False if that is not known."""
    try:
        tenant = client.stats().tenant
    except TriviumError:
        return False
    unknown = tenant is not None and not tenant.text_search_config
    if unknown:
        click.echo(f"{plain(client.tenant)}: unknown tenant, nothing is stored for it", err=True)
    return unknown


pass_connection = click.make_pass_decorator(Connection)


def _for_tenant(ctx: click.Context, parameter: click.Parameter, given: str | None) -> None:
    del parameter
    connection = ctx.find_object(Connection)
    if given is not None and connection is not None:
        ctx.obj = replace(connection, tenant=given)


def tenant_option() -> click.Option:
    """`--tenant` of a command, which may also stand before the command."""
    return click.Option(["--tenant"], expose_value=False, callback=_for_tenant, help="The tenant.")


def _from_the_environment(ctx: click.Context, option: click.Parameter, value: str) -> str:
    """Rejects a secret in the command line, which every account of the machine can read."""
    assert option.name is not None, "every option has a name"
    if ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
        raise click.UsageError("others can read a command line: use --token-file or TRIVIUM_TOKEN")
    return value


def _number(ctx: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Rejects "nan", which is below no limit and above none."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is not in the range of numbers", ctx, option)
    return value


_OPTIONS = (
    click.option(
        "--address",
        envvar="TRIVIUM_ADDRESS",
        default=DEFAULT_ADDRESS,
        show_default=True,
        show_envvar=True,
        help="The address of the service.",
    ),
    click.option("--tenant", envvar="TRIVIUM_TENANT", show_envvar=True, help="The tenant."),
    click.option(
        "--time-zone",
        envvar="TRIVIUM_TIME_ZONE",
        default="",
        show_envvar=True,
        metavar="ZONE",
        help="The time zone of days in a question, such as Europe/Lisbon.  [default: the tenant's]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True, max=MAX_TIMEOUT_S),
        callback=_number,
        metavar="SECONDS",
        help="The deadline of each call.  [default: 2 for reads, 60 for writes]",
    ),
    click.option(
        "--token",
        envvar="TRIVIUM_TOKEN",
        default="",
        hidden=True,
        callback=_from_the_environment,
    ),
    click.option(
        "--token-file",
        envvar="TRIVIUM_TOKEN_FILE",
        type=click.File(),
        show_envvar=True,
        help="The file with your key or token. The variable TRIVIUM_TOKEN can hold it instead.",
    ),
    click.option(
        "--tls/--no-tls",
        envvar="TRIVIUM_TLS",
        default=False,
        show_envvar=True,
        help="Encrypt the connection.",
    ),
    click.option(
        "--tls-ca", envvar="TRIVIUM_TLS_CA", type=PEM, show_envvar=True, help="Authorities, in PEM."
    ),
    click.option(
        "--tls-certificate",
        envvar="TRIVIUM_TLS_CERTIFICATE",
        type=PEM,
        show_envvar=True,
        help="Your certificate, in PEM.",
    ),
    click.option(
        "--tls-key", envvar="TRIVIUM_TLS_KEY", type=PEM, show_envvar=True, help="Its key, in PEM."
    ),
    click.option(
        "--token-without-tls",
        is_flag=True,
        envvar="TRIVIUM_TOKEN_WITHOUT_TLS",
        show_envvar=True,
        help="Send the token in clear text, as something on the way encrypts, such as a sidecar.",
    ),
)


def connection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of a connection to a command, whose context object it becomes."""

    @functools.wraps(command)
    def connected(
        *arguments: object,
        address: str,
        tenant: str | None,
        timeout: float | None,
        token: str,
        token_file: TextIO | None,
        tls: bool,
        tls_ca: Path | None,
        tls_certificate: Path | None,
        tls_key: Path | None,
        token_without_tls: bool,
        time_zone: str,
        **options: object,
    ) -> None:
        if token_file is not None:
            token = token_file.read().strip()
        encrypted = tls or tls_ca is not None or tls_certificate is not None or tls_key is not None
        try:
            files = TLS(ca=tls_ca, certificate=tls_certificate, key=tls_key)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        click.get_current_context().obj = Connection(
            address=address,
            tenant=tenant,
            timeout=timeout,
            token=token,
            tls=files if encrypted else None,
            token_without_tls=token_without_tls,
            time_zone=time_zone,
        )
        command(*arguments, **options)

    for option in reversed(_OPTIONS):
        connected = option(connected)
    return connected
