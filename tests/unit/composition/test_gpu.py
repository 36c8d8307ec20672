"""What a start of models finds: a device, and where torch keeps the kernels that it compiles."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.composition.gpu import (
    keep_compiled_code,
    open_cross_encoder,
    open_encoder,
    require_device,
)
from serving.config.settings import EmbedderSettings, RerankerSettings
from serving.domain.errors import DependencyError

FOLDER = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, "")
    monkeypatch.delenv(FOLDER)


def kept_in() -> str | None:
    return os.environ.get(FOLDER)  # noqa: TID251


@contextmanager
def account_of_the_image() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("another account needs root")
    os.seteuid(10001)
    try:
        yield
    finally:
        os.seteuid(0)


def test_compiled_kernels_are_kept_in_the_cache(tmp_path: Path) -> None:
    keep_compiled_code(tmp_path / "new")

    assert kept_in() == str(tmp_path / "new" / "torchinductor")
    assert [*(tmp_path / "new" / "torchinductor").iterdir()] == []


def test_folder_that_was_set_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, "elsewhere")

    keep_compiled_code(tmp_path)

    assert kept_in() == "elsewhere"


@pytest.mark.parametrize("made", [False, True])
def test_read_only_cache_is_left_to_torch(made: bool) -> None:
    # Not `tmp_path`, which is in a folder that other accounts cannot enter.
    with TemporaryDirectory() as folder:
        cache = Path(folder)
        cache.chmod(0o755)
        if made:
            (cache / "torchinductor").mkdir()
        with account_of_the_image():
            keep_compiled_code(cache)

    assert kept_in() is None


@pytest.mark.model
def test_models_name_a_missing_device(tiny_qwen3: EncoderCheckpoint, tmp_path: Path) -> None:
    model = str(tiny_qwen3.folder)
    embedder = EmbedderSettings(model=model, device="cuda:99")
    reranker = RerankerSettings(model=model, device="cuda:99")

    with pytest.raises(DependencyError, match=r"embedder\.device is cuda:99, and torch finds"):
        open_encoder(embedder, tiny_qwen3, tmp_path)
    with pytest.raises(DependencyError, match=r"reranker\.device is cuda:99, and torch finds"):
        open_cross_encoder(model, reranker, tmp_path)


def test_device_that_is_not_cuda_imports_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    require_device("embedder", "cpu")
