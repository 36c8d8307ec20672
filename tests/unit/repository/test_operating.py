"""The pages for operators agree with the settings."""

from __future__ import annotations

import re

from serving.config.settings import ServeSettings
from tests.support.listing import listed


def test_listed_ports_equal_the_defaults() -> None:
    named = {
        setting.lower(): int(each.ports)
        for each in listed()
        for setting in re.findall(r"TRIVIUM_SERVE__(\w+)", each.what)
    }

    defaults = ServeSettings().model_dump()
    assert named == {name: port for name, port in defaults.items() if name.endswith("_port")}
