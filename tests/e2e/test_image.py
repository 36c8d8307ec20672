"""The steps of `deploy/Containerfile` in an empty Debian, and what they make, under its account."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving.desk.embedded_neo4j.launcher import jar_directory
from tests.support.image import Image, built_image

TOOLS = ("buildah", "mmdebstrap", "ip", "unshare")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
ACCOUNT = 10_001

pytestmark = [
    pytest.mark.release,
    pytest.mark.image,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a root is made and entered by root alone"),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with built_image(tmp_path_factory.mktemp("image")) as made:
        yield made


def test_image_answers_from_a_read_only_root(image: Image, jar_cache: Path) -> None:
    jar_directory(jar_cache, print)

    said = image.run(jar_cache)

    assert said["ids"][0] == "hired"
    assert set(said["legs"].values()) == {"ok"}
    assert said["accounts"] == [ACCOUNT]
    assert said["code"] == 0
