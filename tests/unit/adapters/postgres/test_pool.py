from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict

from serving.adapters.postgres.pool import with_defaults


def test_a_connection_string_keeps_what_it_says() -> None:
    given = "host=db options='-c search_path=memory' connect_timeout=1 application_name=mine"

    used = conninfo_to_dict(with_defaults(given))

    assert used["host"] == "db"
    assert used["options"] == "-c search_path=memory -c TimeZone=UTC"
    assert (str(used["connect_timeout"]), used["application_name"]) == ("1", "mine")


def test_a_silent_server_is_given_up() -> None:
    used = conninfo_to_dict(with_defaults("postgresql://user@db/memory"))

    assert used["connect_timeout"]
    assert used["tcp_user_timeout"]
