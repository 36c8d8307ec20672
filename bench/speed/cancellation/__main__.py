"""The command `python -m bench.speed.cancellation`: how soon a replaced search is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from bench.harness.results import RESULTS
from bench.harness.sample import multiplied_sample
from bench.harness.service import fresh_data
from bench.reports.recording import recorded
from bench.speed.cancellation.figures import results_of, summary
from bench.speed.cancellation.measure import measure
from serving.adapters.postgres.connection.migrations import migrate
from serving.config.settings import Settings
from serving.desk.embedded_neo4j import EmbeddedNeo4j
from serving.desk.embedded_postgres import EmbeddedPostgres


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--transcripts",
    type=click.IntRange(1, 990),
    default=100,
    show_default=True,
    help="How many are replaced.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    help="Where to make the folder of results.",
)
def main(transcripts: int, out: Path) -> None:
    """Replace transcripts of a stream while all searches are held up in every store.

    Writes JSON and a summary.
    """
    collection = multiplied_sample(1)
    click.echo("starting PostgreSQL, Neo4j and the service", err=True)
    with (
        recorded("cancellation", collection, out, summary) as take,
        fresh_data() as folder,
        EmbeddedPostgres(folder / "postgres") as dsn,
        EmbeddedNeo4j(folder / "neo4j", Settings().cache_dir) as uri,
    ):
        asyncio.run(migrate(dsn))
        for result in results_of(asyncio.run(measure(dsn, uri, collection, transcripts))):
            take(result)


if __name__ == "__main__":
    main()
