"""The values of the global options: address, tenant, timeout and credentials."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import click

from trivium.cli.output import plain
from trivium.client import Client
from trivium.errors import TriviumError
from trivium.wire.channel import DEFAULT_TIMEOUT_S, DEFAULT_WRITE_TIMEOUT_S
from trivium.wire.credentials import TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach the service; `timeout` None means the client's defaults."""

    address: str
    tenant: str | None
    timeout: float | None
    token: str = field(default="", repr=False)
    tls: TLS | None = None

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
                timeout=self.timeout or DEFAULT_TIMEOUT_S,
                write_timeout=self.timeout or DEFAULT_WRITE_TIMEOUT_S,
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
