"""The steps of `deploy/Containerfile` in an empty Debian, and what they make, under its account."""

from __future__ import annotations

import json
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

START_OF_A_GPU = """
import json, os, subprocess
from pathlib import Path

import torch
from triton.backends.nvidia import driver
from triton.runtime import build

from serving.adapters.vector_index.lists.inverted_lists import ListsError
from serving.composition.gpu import keep_compiled_code, open_lists

keep_compiled_code(Path(os.environ["TRIVIUM_CACHE_DIR"]))
doubled = torch.compile(lambda x: 2 * x, backend="eager")(torch.ones(1))
# A node's driver has the library, of which nothing is called here.
subprocess.run("cc -shared -x c -o /tmp/libcuda.so.1 /dev/null", shell=True, check=True)
built = build.compile_so_from_file(
    str(Path(driver.__file__).with_name("driver.c")),
    "cuda_utils",
    ["/tmp"],
    driver.include_dirs,
    driver.libraries,
)
try:
    open_lists("cuda:0")
except ListsError as error:
    lists = str(error)
print(json.dumps({
    "account": os.getuid(),
    "writable": os.access(os.environ["TRIVIUM_CACHE_DIR"], os.W_OK),
    "compiled": doubled.item(),
    "driver": Path(built).is_relative_to("/tmp"),
    "lists": lists,
}))
"""
"""What a replica does before it uses a device, and Triton before its first kernel."""

pytestmark = [
    pytest.mark.release,
    pytest.mark.image,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a root is made and entered by root alone"),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with built_image(tmp_path_factory.mktemp("image")) as made:
        yield made


@pytest.fixture(scope="module")
def gpu_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with built_image(tmp_path_factory.mktemp("image"), REQUIREMENTS="gpu") as made:
        yield made


def test_image_answers_from_a_read_only_root(image: Image, jar_cache: Path) -> None:
    jar_directory(jar_cache, print)

    said = image.run(jar_cache)

    assert said["ids"][0] == "hired"
    assert set(said["legs"].values()) == {"ok"}
    assert said["accounts"] == [ACCOUNT]
    assert said["code"] == 0


def test_image_for_gpus_ends_without_a_gpu(gpu_image: Image) -> None:
    start = gpu_image.config["Cmd"][0]

    code, said = gpu_image.ran(start, "/opt/trivium/deploy/serve.gpu-small.yaml")

    assert code == 1
    assert said.startswith("/opt/trivium/deploy/serve.gpu-small.yaml needs a GPU, and torch finds")


def test_image_for_gpus_starts_up_to_the_device(gpu_image: Image) -> None:
    code, said = gpu_image.ran("python", "-c", START_OF_A_GPU)

    assert code == 0, said
    result = json.loads(said.splitlines()[-1])
    assert "NVIDIA driver" in result.pop("lists"), said
    assert result == {"account": ACCOUNT, "writable": False, "compiled": 2, "driver": True}
