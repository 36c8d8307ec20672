"""`make test-gpu` where something is missing that its tests would be skipped for."""

from __future__ import annotations

import pytest
import torch

from tests.support import gpu_tests


def test_gpu_tests_without_cuvs_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu_tests, "find_spec", lambda _: None)
    monkeypatch.setattr(gpu_tests, "pytest_status", lambda *_: 0)

    assert gpu_tests.main() == 1
    assert "cuVS is not installed" in capsys.readouterr().out
