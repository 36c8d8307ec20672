"""The benchmark of quantized embedders, with a tiny model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bench.gpu.networks.quantized import Space, least_cosine, main, overlap
from serving.adapters.encoder.checkpoint import EncoderCheckpoint

SLICE = Path(__file__).parents[3] / "bench" / "quality" / "slices" / "sample"


def test_the_overlap_is_the_share_of_the_nearest_that_both_find() -> None:
    segments = np.eye(20, dtype=np.float32)
    question = np.arange(20, dtype=np.float32)[None]
    changed = question.copy()
    changed[0, 19] = -1  # The nearest of all is found no longer.
    one, other = Space([(question, segments)]), Space([(changed, segments)])

    assert overlap(one, one) == 1
    assert overlap(one, other) == pytest.approx(0.9)
    assert least_cosine(one, Space([(question, -segments)])) == -1


def run(checkpoint: EncoderCheckpoint, *options: str) -> Result:
    where = ["--model", str(checkpoint.folder), "--device", "cpu", str(SLICE)]
    return CliRunner().invoke(main, [*options, *where])


@pytest.mark.parametrize(("least", "verdict"), [("0.5", 0), ("1", 1)])
def test_a_collection_is_asked_in_both_and_too_little_overlap_fails(
    tiny_qwen3: EncoderCheckpoint, least: str, verdict: int
) -> None:
    done = run(tiny_qwen3, "--least", least)

    assert done.exit_code == verdict, done.output
    assert "overlap of the nearest 10 0.9" in done.output


def test_a_model_that_the_service_would_refuse_is_refused_with_its_reason(
    tiny_qwen3: EncoderCheckpoint, tiny_bert: EncoderCheckpoint
) -> None:
    in_float8, of_bert = run(tiny_qwen3, "--precision", "float8"), run(tiny_bert)

    assert (in_float8.exit_code, of_bert.exit_code) == (1, 1)
    assert "in float8 its rows are not those of bfloat16" in in_float8.output
    assert "model_type is 'bert'" in of_bert.output
