from __future__ import annotations

from serving.adapters.postgres.tables.rows import array_literal


def test_texts_are_written_as_postgresql_writes_an_array() -> None:
    written = array_literal(["a b", 'say "hi"', "back\\slash", "{x,y}", "NULL", ""])

    assert written == r'{"a b","say \"hi\"","back\\slash","{x,y}","NULL",""}'


def test_an_empty_array_is_empty() -> None:
    assert array_literal([]) == "{}"
