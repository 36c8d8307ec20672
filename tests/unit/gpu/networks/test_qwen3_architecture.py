"""Supported configurations of Qwen3, and the errors for others."""

from __future__ import annotations

import pytest

from serving.gpu.networks.errors import CheckpointError
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture

PUBLISHED: dict[str, object] = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "model_type": "qwen3",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151669,
}
"""As written by transformers 4, without irrelevant keys."""


def test_a_configuration_of_transformers_4_is_read() -> None:
    assert Qwen3Architecture.read(PUBLISHED) == Qwen3Architecture(
        vocabulary=151669,
        hidden=1024,
        feed_forward=3072,
        layers=28,
        heads=16,
        key_value_heads=8,
        head_dimension=128,
        epsilon=1e-6,
        rope_theta=1e6,
    )


def test_a_configuration_of_transformers_5_is_the_same() -> None:
    later = {
        **{name: value for name, value in PUBLISHED.items() if not name.startswith("rope")},
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        "layer_types": ["full_attention"] * 28,
    }

    assert Qwen3Architecture.read(later) == Qwen3Architecture.read(PUBLISHED)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model_type": "qwen2"}, "model_type is 'qwen2', which"),
        ({"model_type": None}, "model_type is None, which"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', which"),
        ({"attention_bias": True}, "attention_bias is True, which"),
        ({"use_sliding_window": True}, "use_sliding_window is True, which"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types is"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling is"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, "rope_parameters is"),
        ({"rope_theta": None}, "config.json names no rope_theta"),
        ({"head_dim": None}, "config.json names no head_dim"),
        ({"head_dim": 127}, "head_dim is 127, and must be even"),
        ({"num_key_value_heads": 7}, "no multiple of the num_key_value_heads, 7"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, and must be"),
        ({"vocab_size": "many"}, "vocab_size is 'many', and must be"),
    ],
    ids=str,
)
def test_another_network_is_refused_with_the_field_that_tells(
    change: dict[str, object], why: str
) -> None:
    with pytest.raises(CheckpointError, match=why):
        Qwen3Architecture.read({**PUBLISHED, **change})
