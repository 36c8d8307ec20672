"""`trivium-server keys`: creates, lists and revokes the API keys of callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import click

from serving.adapters.postgres.api_keys import PostgresApiKeys
from serving.commands.database import in_database
from serving.config.settings import Settings
from serving.domain.identity import ApiKey, Role
from serving.domain.items.records import TenantName
from serving.ports.api_keys import ApiKeys
from serving.ports.audit_log import Actor, acting

Result = TypeVar("Result")


@click.group()
def keys() -> None:
    """The commands; their context object is the settings."""


@keys.command()
@click.option("--tenant", help="The only tenant that the key may name.")
@click.option("--all-tenants", is_flag=True, help="Let the key name any tenant.")
@click.option(
    "--role",
    "roles",
    type=click.Choice([role.value for role in Role]),
    multiple=True,
    required=True,
    help="A role of the key; can be repeated.",
)
@click.option("--days", type=click.IntRange(min=1), help="Days until the key expires.")
@click.option("--note", default="", help="The users of the key.")
@click.pass_obj
def create(
    settings: Settings,
    *,
    tenant: str | None,
    all_tenants: bool,
    roles: tuple[str, ...],
    days: int | None,
    note: str,
) -> None:
    """Create a key, and print it. It is shown only now: a hash is stored."""
    if bool(tenant) == all_tenants:
        raise click.UsageError("give either --tenant or --all-tenants")
    now = datetime.now(UTC)
    text, key = ApiKey.new(
        frozenset(map(Role, roles)),
        TenantName(tenant) if tenant else None,
        now,
        note=note,
        expires_at=now + timedelta(days=days) if days else None,
    )
    _run(settings, "CreateKey", lambda stored: stored.add(key))
    click.echo(str(text))


@keys.command("list")
@click.pass_obj
def list_(settings: Settings) -> None:
    """List all keys, without their secrets."""
    for key in _run(settings, "ListKeys", lambda stored: stored.all()):
        click.echo(line_of(key, datetime.now(UTC)))


@keys.command()
@click.argument("key_id")
@click.pass_obj
def revoke(settings: Settings, key_id: str) -> None:
    """Revoke the key with this id; the service rejects it within 5 seconds."""
    if not _run(settings, "RevokeKey", lambda stored: stored.revoke(key_id)):
        raise click.ClickException(f"there is no key {key_id!r}; `keys list` shows the ids")


def line_of(key: ApiKey, now: datetime) -> str:
    """A key in one line, without its secret."""
    state = "valid"
    if key.revoked_at is not None:
        state = f"revoked {key.revoked_at:%Y-%m-%d}"
    elif key.expires_at is not None:
        state = f"{'expires' if now < key.expires_at else 'expired'} {key.expires_at:%Y-%m-%d}"
    tenant = "all tenants" if key.tenant is None else f"tenant {key.tenant!r}"
    roles = ",".join(sorted(role.value for role in key.roles))
    return f"{key.id}  {roles}  {tenant}  {state}  {key.note!r}".removesuffix("  ''")


def _run(settings: Settings, rpc: str, work: Callable[[ApiKeys], Awaitable[Result]]) -> Result:
    """Does what an RPC does, and has it logged so."""
    with acting(Actor("command line", rpc)):
        return in_database(settings, lambda database: work(PostgresApiKeys(database)))
