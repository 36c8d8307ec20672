"""Qwen3 as an encoder: the same results as transformers' Qwen3Model, with fewer kernels.

The result is the last hidden state of each row's last token, so there is no key-value cache and no
head. Rows are padded at the right, where a causal model never looks: no mask is needed, and the
padding has no effect. This keeps attention on its fast path and all shapes fixed, as CUDA graphs
require.

A layer takes 11 kernels where transformers' takes 54: query, key and value are one product, as are
gate and up; norms, rotation and gate are compiled (`elementwise`); the products add to the residual
stream in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from serving.gpu.networks.batches import Network
from serving.gpu.networks.passes import Passes, open_passes
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture
from serving.gpu.networks.qwen3.elementwise import Steps, normed, steps_on, with_open_tokens

EMBEDDINGS = "embed_tokens.weight"
FINAL_NORM = "norm.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """The weights of one layer; those of a joint product are one matrix (out, in)."""

    attention_norm: Tensor
    query_key_value: Tensor
    query_norm: Tensor
    key_norm: Tensor
    attended: Tensor
    feed_forward_norm: Tensor
    gate_up: Tensor
    down: Tensor

    @classmethod
    def empty(
        cls, architecture: Qwen3Architecture, device: torch.device, dtype: torch.dtype
    ) -> LayerWeights:
        """Allocates uninitialised weights; on the `meta` device, only their shapes."""
        its = architecture
        query = its.heads * its.head_dimension
        key = its.key_value_heads * its.head_dimension

        def tensor(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        return cls(
            attention_norm=tensor(its.hidden),
            query_key_value=tensor(query + 2 * key, its.hidden),
            query_norm=tensor(its.head_dimension),
            key_norm=tensor(its.head_dimension),
            attended=tensor(its.hidden, query),
            feed_forward_norm=tensor(its.hidden),
            gate_up=tensor(2 * its.feed_forward, its.hidden),
            down=tensor(its.hidden, its.feed_forward),
        )

    def parts(self, architecture: Qwen3Architecture) -> Iterator[tuple[str, Tensor]]:
        """Each tensor name of a checkpoint's layer, with the tensor to copy it into."""
        query = architecture.heads * architecture.head_dimension
        key = architecture.key_value_heads * architecture.head_dimension
        q, k, v = torch.split(self.query_key_value, [query, key, key])
        gate, up = self.gate_up.chunk(2)
        for name, place in (
            ("input_layernorm", self.attention_norm),
            ("self_attn.q_proj", q),
            ("self_attn.k_proj", k),
            ("self_attn.v_proj", v),
            ("self_attn.q_norm", self.query_norm),
            ("self_attn.k_norm", self.key_norm),
            ("self_attn.o_proj", self.attended),
            ("post_attention_layernorm", self.feed_forward_norm),
            ("mlp.gate_proj", gate),
            ("mlp.up_proj", up),
            ("mlp.down_proj", self.down),
        ):
            yield f"{name}.weight", place


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3Weights:
    """All weights, in the precision of the arithmetic and on one device.

    `embeddings`: (vocabulary, hidden). Each iteration of `layers` may read them again.
    """

    embeddings: Tensor
    layers: Iterable[LayerWeights]
    final_norm: Tensor

    @classmethod
    def empty(
        cls, architecture: Qwen3Architecture, device: torch.device, dtype: torch.dtype
    ) -> Qwen3Weights:
        """Allocates uninitialised weights; on the `meta` device, only their shapes."""
        its = architecture
        return cls(
            embeddings=torch.empty((its.vocabulary, its.hidden), dtype=dtype, device=device),
            layers=tuple(LayerWeights.empty(its, device, dtype) for _ in range(its.layers)),
            final_norm=torch.empty(its.hidden, dtype=dtype, device=device),
        )

    def parts(self, architecture: Qwen3Architecture) -> Iterator[tuple[str, Tensor]]:
        """Each tensor name of a checkpoint, without prefix, with the tensor to copy it into."""
        yield EMBEDDINGS, self.embeddings
        for number, layer in enumerate(self.layers):
            for name, place in layer.parts(architecture):
                yield f"{layer_name(number)}{name}", place
        yield FINAL_NORM, self.final_norm


def layer_name(number: int) -> str:
    """The prefix of a layer's tensor names, without the checkpoint's own."""
    return f"layers.{number}."


@dataclass(frozen=True, slots=True)
class _Rotation:
    """Cosines and signed sines of the angles of each position: (positions, head dimension)."""

    cosines: Tensor
    sines: Tensor

    @classmethod
    def table(cls, architecture: Qwen3Architecture, positions: int, like: Tensor) -> _Rotation:
        half = torch.arange(0, architecture.head_dimension, 2).float()
        frequencies = 1.0 / architecture.rope_theta ** (half / architecture.head_dimension)
        angles = torch.outer(torch.arange(positions).float(), frequencies)
        cosines = torch.cat([angles.cos(), angles.cos()], dim=-1)
        # With the sign in the table, the halves are swapped and nothing is negated.
        sines = torch.cat([-angles.sin(), angles.sin()], dim=-1)
        return cls(cosines.to(like), sines.to(like))

    def of_rows(self, rows: int, length: int) -> _Rotation:
        """The rotation of each token of `rows`, in order: (tokens, head dimension)."""
        parts = (part[:length].repeat(rows, 1) for part in (self.cosines, self.sines))
        return _Rotation(*map(with_open_tokens, parts))


FLASH_BELOW = 64
"""Of tokens in a row: there flash attention was up to a quarter faster than cuDNN's on an H200, and
with 128 it took 1.7 times as long. No bench compares them: each was recorded 28 times in a CUDA
graph, and timed."""


def _causal_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Each argument is (rows, positions, heads, dimension). No mask: attention's fast path."""
    backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]
    if query.shape[1] >= FLASH_BELOW:
        backends[:2] = reversed(backends[:2])
    with sdpa_kernel(backends, set_priority=True):
        attended = functional.scaled_dot_product_attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            is_causal=True,
            enable_gqa=query.shape[-2] != key.shape[-2],
        )
    return attended.transpose(1, 2)


class _Layer:
    """Attention, then feed-forward, each added in place to the residual stream (tokens, hidden)."""

    def __init__(
        self, architecture: Qwen3Architecture, weights: LayerWeights, steps: Steps
    ) -> None:
        self._steps = steps
        self._heads = architecture.heads
        self._rotated = architecture.heads + architecture.key_value_heads
        self._head = architecture.head_dimension
        self._epsilon = architecture.epsilon
        self._attention_norm = weights.attention_norm
        self._query_key_value = weights.query_key_value.t()
        self._head_norms = torch.cat(
            [
                weights.query_norm.expand(architecture.heads, -1),
                weights.key_norm.expand(architecture.key_value_heads, -1),
            ]
        )
        self._attended = weights.attended.t()
        self._feed_forward_norm = weights.feed_forward_norm
        self._gate_up = weights.gate_up.t()
        self._down = weights.down.t()

    def attend(self, stream: Tensor, rows: int, rotation: _Rotation) -> None:
        """Adds causal attention within each of the `rows`, which are of equal length."""
        projected = torch.mm(self._normed(stream, self._attention_norm), self._query_key_value)
        heads = projected.view(len(stream), -1, self._head)
        in_rows = (rows, len(stream) // rows, -1, self._head)
        query_key = self._steps.rotated(
            with_open_tokens(heads[:, : self._rotated]),
            self._head_norms,
            rotation.cosines,
            rotation.sines,
            self._epsilon,
        ).view(in_rows)
        attended = _causal_attention(
            query_key[..., : self._heads, :],
            query_key[..., self._heads :, :],
            heads.view(in_rows)[..., self._rotated :, :],
        )
        stream.addmm_(attended.reshape(len(stream), -1), self._attended)

    def feed_forward(self, stream: Tensor) -> None:
        products = torch.mm(self._normed(stream, self._feed_forward_norm), self._gate_up)
        stream.addmm_(self._steps.gated(with_open_tokens(products)), self._down)

    def _normed(self, stream: Tensor, weight: Tensor) -> Tensor:
        return self._steps.normed(with_open_tokens(stream), weight, self._epsilon)


class Qwen3:
    """Tokens into the last hidden state of each row's last token."""

    @torch.inference_mode()
    def __init__(self, architecture: Qwen3Architecture, weights: Qwen3Weights, window: int) -> None:
        self.architecture = architecture
        self.window = window
        self._embeddings = weights.embeddings
        self._final_norm = weights.final_norm
        steps = steps_on(weights.final_norm.device)
        self._layers = tuple(_Layer(architecture, each, steps) for each in weights.layers)
        self._rotation = _Rotation.table(architecture, window, weights.final_norm)

    @property
    def device(self) -> torch.device:
        return self._final_norm.device

    def passes(self) -> Passes:
        """Prepares the network for its device; see `open_passes`."""
        return open_passes(Network(self, self.device), self.architecture.hidden, self.window)

    @torch.inference_mode()
    def __call__(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Runs one pass, without copying anything to the host.

        Args:
            ids: int32 or int64 (rows, longest): tokens, then any padding at the right.
            lengths: int32 or int64 (rows,): the tokens of each row, from 1 to `longest`.

        Returns:
            float32 (rows, hidden), on the device, not of unit length.
        """
        rows, longest = ids.shape
        before_row = torch.arange(-1, rows * longest - 1, longest, device=ids.device)
        rotation = self._rotation.of_rows(rows, longest)
        stream = functional.embedding(ids.flatten(), self._embeddings)
        for layer in self._layers:
            layer.attend(stream, rows, rotation)
            layer.feed_forward(stream)
        last = stream.index_select(0, before_row + lengths)
        return normed(last, self._final_norm, self.architecture.epsilon).float()
