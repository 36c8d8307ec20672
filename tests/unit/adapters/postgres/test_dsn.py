from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from serving.adapters.postgres.connection.dsn import parses, with_defaults


@pytest.mark.parametrize(
    ("dsn", "is_valid"),
    [
        ("host=/run user=me password='two words'", True),
        ("postgresql://me@host", True),
        ("host=/run password=two words", False),
        ("postgresql://me@[host", False),
    ],
)
def test_only_a_valid_string_parses(dsn: str, is_valid: bool) -> None:
    assert parses(dsn) is is_valid


def test_a_connection_string_keeps_its_own_settings() -> None:
    given = "host=db options='-c search_path=memory' connect_timeout=1 application_name=mine"

    used = conninfo_to_dict(with_defaults(given))

    assert used["host"] == "db"
    assert used["options"] == "-c search_path=memory -c TimeZone=UTC"
    assert (str(used["connect_timeout"]), used["application_name"]) == ("1", "mine")


def test_an_unresponsive_server_is_given_up() -> None:
    used = conninfo_to_dict(with_defaults("postgresql://user@db/memory"))

    assert used["connect_timeout"]
    assert used["tcp_user_timeout"]
