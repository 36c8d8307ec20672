"""Qwen3 as an encoder: the same numbers as transformers' Qwen3Model, in fewer kernels.

What is asked for is the last hidden state of each row's last token, so there is no cache of keys
and no head. Rows are padded at the right, and a causal model never looks right: no mask is
needed, and what stands in the padding changes nothing. That keeps attention on its fast path and
every shape fixed, as CUDA graphs want it.

A layer takes 14 kernels where transformers' takes 54: query, key and value are one product, so
are gate and up; both norms of the heads are one; the rotation is two multiplications and one
addition, with the sign of its half folded into the table; the residual is added by the product
that makes its other term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from serving.models.errors import CheckpointError, DeviceMemoryError
from serving.models.precision import Precision
from serving.models.qwen3_architecture import Qwen3Architecture
from serving.models.stored_tensors import StoredTensors

PREFIX = "model."
"""Before each name in a checkpoint that was saved as a language model."""

HEAD = "lm_head.weight"
EMBEDDINGS = "embed_tokens.weight"

DTYPES: Mapping[Precision, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """The weights of one layer; matrices are (out, in), as they are stored."""

    attention_norm: Tensor
    query_key_value: Tensor
    query_norm: Tensor
    key_norm: Tensor
    attended: Tensor
    feed_forward_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3Weights:
    """All weights, those of one product in one matrix.

    `embeddings`: (vocabulary, hidden). All are of one precision and on one device.
    """

    embeddings: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor

    @classmethod
    def empty(
        cls, architecture: Qwen3Architecture, device: torch.device, dtype: torch.dtype
    ) -> Qwen3Weights:
        """Allocates them, with whatever the memory holds; on `meta`, only their shapes."""
        its = architecture
        query = its.heads * its.head_dimension
        key = its.key_value_heads * its.head_dimension

        def tensor(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        def layer() -> LayerWeights:
            return LayerWeights(
                attention_norm=tensor(its.hidden),
                query_key_value=tensor(query + 2 * key, its.hidden),
                query_norm=tensor(its.head_dimension),
                key_norm=tensor(its.head_dimension),
                attended=tensor(its.hidden, query),
                feed_forward_norm=tensor(its.hidden),
                gate_up=tensor(2 * its.feed_forward, its.hidden),
                down=tensor(its.hidden, its.feed_forward),
            )

        return cls(
            embeddings=tensor(its.vocabulary, its.hidden),
            layers=tuple(layer() for _ in range(its.layers)),
            final_norm=tensor(its.hidden),
        )

    def parts(self, architecture: Qwen3Architecture) -> Iterator[tuple[str, Tensor]]:
        """Names each tensor of a checkpoint, without prefix, with the place it is kept in."""
        query = architecture.heads * architecture.head_dimension
        key = architecture.key_value_heads * architecture.head_dimension
        yield EMBEDDINGS, self.embeddings
        for number, layer in enumerate(self.layers):
            q, k, v = torch.split(layer.query_key_value, [query, key, key])
            gate, up = layer.gate_up.chunk(2)
            for name, place in (
                ("input_layernorm", layer.attention_norm),
                ("self_attn.q_proj", q),
                ("self_attn.k_proj", k),
                ("self_attn.v_proj", v),
                ("self_attn.q_norm", layer.query_norm),
                ("self_attn.k_norm", layer.key_norm),
                ("self_attn.o_proj", layer.attended),
                ("post_attention_layernorm", layer.feed_forward_norm),
                ("mlp.gate_proj", gate),
                ("mlp.up_proj", up),
                ("mlp.down_proj", layer.down),
            ):
                yield f"layers.{number}.{name}.weight", place
        yield "norm.weight", self.final_norm


@torch.inference_mode()
def load_weights(
    tensors: StoredTensors,
    architecture: Qwen3Architecture,
    device: torch.device,
    precision: Precision,
) -> Qwen3Weights:
    """Reads a checkpoint, one tensor at a time onto the device.

    Raises:
        CheckpointError: A tensor is missing, of another shape, or one that a Qwen3 has not.
        DeviceMemoryError: The weights do not fit the device.
    """
    prefix = _prefix(tensors)
    _require_the_same(tensors, architecture, prefix)
    try:
        weights = Qwen3Weights.empty(architecture, device, DTYPES[precision])
        for name, place in weights.parts(architecture):
            place.copy_(tensors.read(prefix + name))
    except torch.OutOfMemoryError as error:
        raise DeviceMemoryError(f"the weights do not fit the memory of {device}") from error
    return weights


def head_rows(tensors: StoredTensors, numbers: Sequence[int], *, tied: bool) -> Tensor:
    """Some rows of a language model's head, float32 (len(numbers), hidden), on the host.

    Args:
        tensors: The checkpoint.
        numbers: Which tokens' rows.
        tied: Whether the head is the embeddings once more.

    Raises:
        CheckpointError: There is no head.
    """
    name = _prefix(tensors) + EMBEDDINGS if tied else HEAD
    if name not in tensors.names:
        raise CheckpointError(f"the checkpoint lacks tensor {name!r}")
    return tensors.rows(name, numbers)


def _prefix(tensors: StoredTensors) -> str:
    """What precedes the names of the checkpoint's tensors."""
    return PREFIX if PREFIX + EMBEDDINGS in tensors.names else ""


def _require_the_same(tensors: StoredTensors, architecture: Qwen3Architecture, prefix: str) -> None:
    """Compares names and shapes before anything is read: a wrong file is refused at once."""
    shapes = Qwen3Weights.empty(architecture, torch.device("meta"), torch.float32)
    expected = {prefix + name: tuple(place.shape) for name, place in shapes.parts(architecture)}
    for name, shape in expected.items():
        if name not in tensors.names:
            raise CheckpointError(f"the checkpoint lacks tensor {name!r}")
        if tensors.shape(name) != shape:
            raise CheckpointError(
                f"tensor {name!r} is of shape {tensors.shape(name)}, expected {shape}"
            )
    for name in sorted(tensors.names):
        if name not in expected and name != HEAD:
            raise CheckpointError(f"the checkpoint has tensor {name!r}, which a Qwen3 has not")


@dataclass(frozen=True, slots=True)
class _Rotation:
    """Cosines and signed sines of each position's angles: (positions, 1, head dimension)."""

    cosines: Tensor
    sines: Tensor

    @classmethod
    def table(cls, architecture: Qwen3Architecture, positions: int, like: Tensor) -> _Rotation:
        half = torch.arange(0, architecture.head_dimension, 2).float()
        frequencies = 1.0 / architecture.rope_theta ** (half / architecture.head_dimension)
        angles = torch.outer(torch.arange(positions).float(), frequencies)
        cosines = torch.cat([angles.cos(), angles.cos()], dim=-1)
        # The first half of a head loses what the second gains: with the sign in the table the
        # halves are swapped by one roll, and nothing is negated.
        sines = torch.cat([-angles.sin(), angles.sin()], dim=-1)
        return cls(*(part[:, None].to(like) for part in (cosines, sines)))

    def until(self, length: int) -> _Rotation:
        """That of the first positions."""
        return _Rotation(self.cosines[:length], self.sines[:length])

    def of(self, heads: Tensor) -> Tensor:
        """Turns (rows, positions, heads, head dimension) by the angles of the positions."""
        swapped = heads.roll(heads.shape[-1] // 2, dims=-1)
        return torch.addcmul(heads * self.cosines, swapped, self.sines)


class _Layer:
    """Attention, then feed-forward, each added to the residual stream (tokens, hidden)."""

    def __init__(self, architecture: Qwen3Architecture, weights: LayerWeights) -> None:
        self._heads = architecture.heads
        self._key_value_heads = architecture.key_value_heads
        self._head = (architecture.head_dimension,)
        self._epsilon = architecture.epsilon
        self._attention_norm = weights.attention_norm
        self._query_key_value = weights.query_key_value.t()
        self._head_norms = torch.cat(
            [
                weights.query_norm.expand(self._heads, -1),
                weights.key_norm.expand(self._key_value_heads, -1),
            ]
        )
        self._attended = weights.attended.t()
        self._feed_forward_norm = weights.feed_forward_norm
        self._gate_up = weights.gate_up.t()
        self._down = weights.down.t()

    def attend(self, stream: Tensor, rows: int, rotation: _Rotation) -> Tensor:
        """Lets each token look at itself and those before it in its row."""
        projected = torch.mm(self._normed(stream, self._attention_norm), self._query_key_value)
        heads = projected.view(rows, -1, self._heads + 2 * self._key_value_heads, *self._head)
        turning = self._heads + self._key_value_heads
        normed = functional.rms_norm(heads[:, :, :turning], self._head, None, self._epsilon)
        turned = rotation.of(normed * self._head_norms).transpose(1, 2)
        attended = functional.scaled_dot_product_attention(
            turned[:, : self._heads],
            turned[:, self._heads :],
            heads[:, :, turning:].transpose(1, 2),
            is_causal=True,
            enable_gqa=self._heads != self._key_value_heads,
        )
        joined = attended.transpose(1, 2).reshape(len(stream), -1)
        return torch.addmm(stream, joined, self._attended)

    def feed_forward(self, stream: Tensor) -> Tensor:
        """The same for each token by itself."""
        products = torch.mm(self._normed(stream, self._feed_forward_norm), self._gate_up)
        gate, up = products.chunk(2, dim=-1)
        return torch.addmm(stream, functional.silu(gate) * up, self._down)

    def _normed(self, stream: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(stream, weight.shape, weight, self._epsilon)


class Qwen3:
    """Tokens into the last hidden state of each row's last token.

    Args:
        architecture: What `weights` are of.
        weights: On the device, and in the precision, that is to be computed in.
        window: The most tokens of a row.
    """

    @torch.inference_mode()
    def __init__(self, architecture: Qwen3Architecture, weights: Qwen3Weights, window: int) -> None:
        self.architecture = architecture
        self._weights = weights
        self._layers = [_Layer(architecture, layer) for layer in weights.layers]
        self._rotation = _Rotation.table(architecture, window, weights.final_norm)

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self._weights.final_norm.device

    @torch.inference_mode()
    def __call__(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Runs one pass; reads nothing back from the device.

        Args:
            ids: int32 or int64 (rows, longest): tokens, then any padding at the right.
            lengths: int32 or int64 (rows,): the tokens of each row, from 1 to `longest`.

        Returns:
            float32 (rows, hidden), on the device, not of unit length.
        """
        rows, longest = ids.shape
        rotation = self._rotation.until(longest)
        before_row = torch.arange(-1, rows * longest - 1, longest, device=ids.device)
        stream = functional.embedding(ids, self._weights.embeddings).flatten(0, 1)
        for layer in self._layers:
            stream = layer.attend(stream, rows, rotation)
            if layer is self._layers[-1]:
                # Nobody looks at the other tokens from here on.
                stream = stream.index_select(0, before_row + lengths)
            stream = layer.feed_forward(stream)
        norm = self._weights.final_norm
        return functional.rms_norm(stream, norm.shape, norm, self.architecture.epsilon).float()
