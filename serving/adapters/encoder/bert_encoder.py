"""BERT on a CPU with bfloat16 matrix instructions (Intel AMX), four times as fast as float32.

The matrix products take bfloat16 and sum in float32; the residual stream, the layer
norms and the pooling stay float32. So the vectors keep a cosine of 0.9999 to float32's,
0.99997 on our probes; every start embeds these, and refuses a model that does not keep it.
Padding is left out of all products: the tokens of a batch lie in one long row, and only
attention sees them as a batch.

All-MiniLM-L6-v2, one thread of a Sapphire Rapids Xeon, CPU ms for B texts of L tokens:

    B x L                    1 x 16   8 x 16   32 x 16   32 x 7-36   8 x 128
    transformers, float32       8       26        82         220         195
    ONNX Runtime, float32       3.3     21        79         157         174
    here                        2.5      7        21          43          45
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from serving.adapters.encoder.backend import is_plain_bert
from serving.adapters.encoder.checkpoint import Checkpoint
from serving.adapters.encoder.onnx_probe import probe_windows
from serving.adapters.encoder.reference import kept_reference, require_same
from serving.adapters.encoder.windows import WindowTokenizer, encode_by_length
from serving.domain.errors import DependencyError
from serving.domain.soundness import sound_rows
from serving.ports import Device, EmbeddingModel, TokenIds, Vector, Vectors

PADDED_TOKENS = 4096
"""Of a pass, to bound its memory: only attention pads, so no more can be gained."""


class _Linear:
    """A bfloat16 product with its weights laid out for the CPU, and GELU within on demand."""

    def __init__(self, weight: Tensor, bias: Tensor, *, gelu: bool = False) -> None:
        # What torch.compile emits for a Linear on the CPU. `functional.linear` would lay
        # out the weights anew at every call: 3.5 ms a query instead of 2.5.
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16().contiguous())
        self._bias = bias.bfloat16()
        self._activation = "gelu" if gelu else "none"

    def __call__(self, rows: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows, self._weight, self._bias, self._activation, [], "none"
        )
        return product


class _LayerNorm:
    """Float32 (tokens, hidden) to the same."""

    def __init__(self, weight: Tensor, bias: Tensor, epsilon: float) -> None:
        self._weight = weight
        self._bias = bias
        self._epsilon = epsilon

    def __call__(self, rows: Tensor) -> Tensor:
        shape = self._weight.shape
        return functional.layer_norm(rows, shape, self._weight, self._bias, self._epsilon)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Windows as one long row of tokens, and the way between it and a padded batch.

    ids, positions: int64 (tokens,). slots: int64 (n, longest), the token of each place,
    0 where there is none. present: bool (n, longest). lengths: int64 (n,).
    """

    ids: Tensor
    positions: Tensor
    slots: Tensor
    present: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, windows: Sequence[TokenIds]) -> _Batch:
        lengths = torch.tensor([len(window) for window in windows])
        starts = torch.cumsum(lengths, 0) - lengths
        places = torch.arange(int(lengths.max()))
        present = places < lengths[:, None]
        slots = torch.where(present, starts[:, None] + places, 0)
        positions = places.expand_as(present)[present]
        ids = torch.tensor([token for window in windows for token in window])
        return cls(ids, positions, slots, present, lengths)


class _Layer:
    """One transformer layer: attention and feed-forward, each followed by its norm."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, heads: int, eps: float) -> None:
        def pair(name: str) -> tuple[Tensor, Tensor]:
            return weights[f"{prefix}.{name}.weight"], weights[f"{prefix}.{name}.bias"]

        query, key, value = (pair(f"attention.self.{part}") for part in ("query", "key", "value"))
        joined = (torch.cat(parts) for parts in zip(query, key, value, strict=True))
        self._heads = heads
        self._query_key_value = _Linear(*joined)
        self._attended = _Linear(*pair("attention.output.dense"))
        self._attention_norm = _LayerNorm(*pair("attention.output.LayerNorm"), eps)
        self._wide = _Linear(*pair("intermediate.dense"), gelu=True)
        self._narrow = _Linear(*pair("output.dense"))
        self._output_norm = _LayerNorm(*pair("output.LayerNorm"), eps)

    def __call__(self, rows: Tensor, batch: _Batch, mask: Tensor | None) -> Tensor:
        """Float32 (tokens, hidden) to the same; `mask` is None when nothing is padded."""
        attended = self._attended(self._attend(self._query_key_value(rows.bfloat16()), batch, mask))
        rows = self._attention_norm(rows + attended)
        return self._output_norm(rows + self._narrow(self._wide(rows.bfloat16())))

    def _attend(self, projected: Tensor, batch: _Batch, mask: Tensor | None) -> Tensor:
        count, longest = batch.present.shape
        if mask is not None:
            projected = projected[batch.slots.flatten()]
        split = projected.view(count, longest, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        padded = attended.transpose(1, 2).reshape(count * longest, -1)
        return padded if mask is None else padded[batch.present.flatten()]


class BertEncoder:
    """A `TextEncoder` for BERT checkpoints that are pooled by their mean or first token.

    Args:
        checkpoint: What to load; `is_plain_bert` holds for it.
        cache_dir: Where the vectors of the probes are kept; made if it does not exist.
        threads: Torch's threads for one forward pass, of the whole process; None
            leaves them.

    Raises:
        DependencyError: The checkpoint is of another architecture, gives other vectors in
            bfloat16, or the CPU cannot compute in bfloat16 at all.
    """

    def __init__(self, checkpoint: Checkpoint, cache_dir: Path, *, threads: int | None = 1) -> None:
        if not is_plain_bert(checkpoint):
            raise DependencyError("embedder", "the checkpoint is no plain BERT")
        if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            raise DependencyError("embedder", "this CPU does not compute in bfloat16")
        if threads is not None:
            torch.set_num_threads(threads)
        self._checkpoint = checkpoint
        self._tokenizer = WindowTokenizer(checkpoint)
        self._load(load_weights(checkpoint.folder))
        require_same(
            self.encode(probe_windows(self._tokenizer)),
            kept_reference(checkpoint, cache_dir),
            "bfloat16 arithmetic",
            "set embedder.backend to onnx",
        )

    @torch.inference_mode()
    def _load(self, weights: Mapping[str, Tensor]) -> None:
        config = self._checkpoint.architecture
        eps = float(config["layer_norm_eps"])
        heads = int(config["num_attention_heads"])
        # No text has a second part, so the type of every token is 0.
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = (
            weights["embeddings.position_embeddings.weight"]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._embedding_norm = _LayerNorm(
            weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"], eps
        )
        self._layers = [
            _Layer(weights, f"encoder.layer.{number}", heads, eps)
            for number in range(int(config["num_hidden_layers"]))
        ]

    def model(self) -> EmbeddingModel:
        """The model that makes the vectors."""
        return self._checkpoint.model

    def device(self) -> Device:
        """This CPU."""
        return Device(is_accelerator=False, token_budget=PADDED_TOKENS)

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question with its prompt; what exceeds the window is cut."""
        return self._tokenizer.query(text)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text into at least one window; each begins within the one before."""
        return self._tokenizer.document(text)

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes one row per window, in their order."""
        return encode_by_length(windows, self._run, self._checkpoint.model.dimension, PADDED_TOKENS)

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[Vector | None]:
        """Makes the same rows; None for one that is zero or not finite."""
        return sound_rows(self.encode(windows))

    @torch.inference_mode()
    def _run(self, windows: Sequence[TokenIds]) -> NDArray[np.float32]:
        batch = _Batch.of(windows)
        ragged = batch.ids.numel() < batch.present.numel()
        mask = batch.present[:, None, None, :] if ragged else None
        rows = self._embedding_norm(self._words[batch.ids] + self._places[batch.positions])
        for layer in self._layers:
            rows = layer(rows, batch, mask)
        return self._pool(rows, batch).numpy()

    def _pool(self, rows: Tensor, batch: _Batch) -> Tensor:
        if self._checkpoint.pooling == "cls":
            return rows[batch.slots[:, 0]]
        window_of = torch.arange(len(batch.lengths)).repeat_interleave(batch.lengths)
        sums = torch.zeros(len(batch.lengths), rows.shape[1]).index_add_(0, window_of, rows)
        return sums / batch.lengths[:, None]


def load_weights(folder: Path) -> dict[str, Tensor]:
    """The float32 weights of a BERT, by their names below the model's own prefix."""
    weights: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights |= load_file(path)
    return {name.removeprefix("bert."): tensor.float() for name, tensor in weights.items()}
