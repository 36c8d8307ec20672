"""The README agrees with the settings."""

from __future__ import annotations

import re

from serving.config.settings import ServeSettings
from tests.support.listing import listed


def test_the_ports_in_the_list_of_what_listens_are_the_defaults() -> None:
    named = {
        setting.lower(): int(each.ports)
        for each in listed()
        for setting in re.findall(r"TRIVIUM_SERVE__(\w+)", each.what)
    }

    defaults = ServeSettings().model_dump()
    assert named == {name: port for name, port in defaults.items() if name.endswith("_port")}
