"""What the service refuses before it opens anything."""

from __future__ import annotations

import pytest

from serving.composition.service import running_service
from serving.config.settings import load_settings


async def test_a_dsn_that_does_not_parse_is_named_and_not_quoted() -> None:
    settings = load_settings({"postgres": {"dsn": "host=/run password=two words"}})

    with pytest.raises(ValueError, match=r"postgres\.dsn does not parse") as raised:
        async with running_service(settings):
            pass

    assert "words" not in str(raised.value)
