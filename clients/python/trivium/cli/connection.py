"""What the global options say: where the service is, whose memory, how long."""

from __future__ import annotations

from dataclasses import dataclass

import click

from trivium.channel import DEFAULT_TIMEOUT_S, DEFAULT_WRITE_TIMEOUT_S
from trivium.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach the service; `timeout` None leaves the client's defaults."""

    address: str
    tenant: str | None
    timeout: float | None

    def tenant_or_fail(self) -> str:
        """The tenant of the global option.

        Raises:
            click.UsageError: It is not given.
        """
        if not self.tenant:
            raise click.UsageError(
                "whose memory? Give --tenant before the command, or set TRIVIUM_TENANT."
            )
        return self.tenant

    def open(self, tenant: str | None = None) -> Client:
        """A client for `tenant`, or else for the tenant of the global option."""
        return Client(
            self.address,
            tenant=tenant or self.tenant_or_fail(),
            timeout=self.timeout or DEFAULT_TIMEOUT_S,
            write_timeout=self.timeout or DEFAULT_WRITE_TIMEOUT_S,
        )


pass_connection = click.make_pass_decorator(Connection)
