"""What is said of replaced transcripts."""

from __future__ import annotations

from bench.speed.cancellation.figures import cancellation_table, results_of


def test_each_place_has_a_line_and_the_last_of_them_is_that_of_each_transcript() -> None:
    seconds = {"PostgreSQL": [0.001, 0.009], "Neo4j": [0.004, 0.002]}

    records = [each.as_record({}) for each in results_of(seconds)]

    assert cancellation_table(records).splitlines()[2:] == [
        "| PostgreSQL | 2 | 1 | 9 | 9 |",
        "| Neo4j | 2 | 2 | 4 | 4 |",
        "| the last of them | 2 | 4 | 9 | 9 |",
    ]
