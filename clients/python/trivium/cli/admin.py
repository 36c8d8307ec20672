"""The command about all tenants: `tenants`."""

from __future__ import annotations

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
