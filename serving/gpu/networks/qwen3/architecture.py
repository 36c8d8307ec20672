"""The architecture of a Qwen3, read from a checkpoint's `config.json` and validated.

Imports no torch, so a checkpoint can be identified without loading it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from serving.gpu.networks.errors import CheckpointError

MODEL_TYPE = "qwen3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3Architecture:
    """The dimensions of the network.

    `hidden` is the width of the residual stream and of the result, `feed_forward` that inside a
    feed-forward block. Groups of `heads` share one of the `key_value_heads`.
    """

    vocabulary: int
    hidden: int
    feed_forward: int
    layers: int
    heads: int
    key_value_heads: int
    head_dimension: int
    epsilon: float
    rope_theta: float

    def __post_init__(self) -> None:
        if self.heads % self.key_value_heads:
            raise CheckpointError(
                f"num_attention_heads is {self.heads}, no multiple of the "
                f"num_key_value_heads, {self.key_value_heads}"
            )
        if self.head_dimension % 2:
            raise CheckpointError(f"head_dim is {self.head_dimension}, and must be even")

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Qwen3Architecture:
        """Reads `config.json`; raises CheckpointError for another network or variant."""
        for name, accepted in REQUIRED.items():
            value = config.get(name)
            if not accepted(value):
                raise CheckpointError(f"{name} is {value!r}, which this Qwen3 does not compute")
        # transformers 5 writes the rotary settings as a mapping of their own.
        rope: Mapping[str, Any] = config.get("rope_parameters") or config
        return cls(
            vocabulary=_positive(config, "vocab_size"),
            hidden=_positive(config, "hidden_size"),
            feed_forward=_positive(config, "intermediate_size"),
            layers=_positive(config, "num_hidden_layers"),
            heads=_positive(config, "num_attention_heads"),
            key_value_heads=_positive(config, "num_key_value_heads"),
            head_dimension=_positive(config, "head_dim"),
            epsilon=float(_present(config, "rms_norm_eps")),
            rope_theta=float(_present(rope, "rope_theta")),
        )


def _is_plain_rope(parameters: Mapping[str, Any] | None) -> bool:
    if parameters is None:
        return True
    kind: str = parameters.get("rope_type", parameters.get("type", "default"))
    return kind == "default"


REQUIRED: Mapping[str, Callable[[Any], bool]] = {
    "model_type": lambda value: value == MODEL_TYPE,
    "hidden_act": lambda value: value == "silu",
    "attention_bias": lambda value: not value,
    "use_sliding_window": lambda value: not value,
    "layer_types": lambda types: types is None or set(types) == {"full_attention"},
    "rope_scaling": _is_plain_rope,
    "rope_parameters": _is_plain_rope,
}
"""The requirements of the forward pass, by key of `config.json`."""


def _present(config: Mapping[str, Any], name: str) -> Any:
    if config.get(name) is None:
        raise CheckpointError(f"config.json names no {name}")
    return config[name]


def _positive(config: Mapping[str, Any], name: str) -> int:
    value = _present(config, name)
    if not isinstance(value, int) or value < 1:
        raise CheckpointError(f"{name} is {value!r}, and must be a positive number")
    return value
