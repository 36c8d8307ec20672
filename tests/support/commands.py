"""`python -m serving`, as an operator types it."""

from __future__ import annotations

import asyncio

from click.testing import CliRunner, Result

from serving.__main__ import main


async def command(*words: str, dsn: str, uri: str | None = None, **variables: str) -> Result:
    """Runs a command for the stores at these addresses."""
    env = {"TRIVIUM_POSTGRES__DSN": dsn, "TRIVIUM_NEO4J__URI": uri, **variables}
    return await asyncio.to_thread(CliRunner().invoke, main, words, env=env)


async def succeed(*words: str, dsn: str, uri: str | None = None) -> str:
    """Runs a command that must succeed; what it prints."""
    result = await command(*words, dsn=dsn, uri=uri)
    assert result.exit_code == 0, result.output
    return result.output
