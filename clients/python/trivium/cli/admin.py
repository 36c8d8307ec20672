"""The commands of administrators: `tenants` and `audit`."""

from __future__ import annotations

from itertools import islice

import click

from trivium.cli.connection import Connection, pass_connection
from trivium.cli.output import day, json_option, print_json, stdout, styled, table


@click.command()
@json_option
@pass_connection
def tenants(connection: Connection, as_json: bool) -> None:
    """Lists the tenants, with what they hold; needs the role admin for all tenants."""
    with connection.open(tenant=connection.tenant or "-") as client:
        found = list(client.list_tenants())
    if as_json:
        print_json(found)
        return
    rows = table("tenant", "segments", "facts", "bytes of text", "newest", "last write", "language")
    for each in found:
        counts = map(str, (each.segment_count, each.fact_count, each.text_bytes))
        times = map(day, (each.newest_event_time, each.updated_at))
        rows.add_row(styled(each.name), *counts, *times, each.text_search_config)
    stdout().print(rows)


@click.command()
@click.option("--all-tenants", is_flag=True, help="Show changes of all tenants, and of keys.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The most entries."
)
@json_option
@pass_connection
def audit(connection: Connection, all_tenants: bool, limit: int, as_json: bool) -> None:
    """Lists who changed what, the newest first; needs the role admin."""
    with connection.open(tenant=connection.tenant or ("-" if all_tenants else None)) as client:
        pages = client.list_audit_entries(all_tenants=all_tenants, page_size=min(limit, 1000))
        found = list(islice(pages, limit))
    if as_json:
        print_json(found)
        return
    rows = table("time", "caller", "call", "tenant", "created", "updated", "erased", "key")
    for each in found:
        at = f"{each.at:%Y-%m-%d %H:%M:%S}" if each.at else ""
        counts = map(str, (each.created_count, each.updated_count, each.erased_count))
        rows.add_row(at, styled(each.caller), each.rpc, styled(each.tenant), *counts, each.key_id)
    stdout().print(rows)
