"""The networks that are measured, each run in several ways.

`here` is what the service does, `here, no graphs` on a GPU the same without recorded CUDA graphs,
and `transformers` that library's own network, called as it is. All have the same random weights,
precision and tokens; making tokens of text is in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.gpu.networks.floors import Body, bert_body, qwen3_body
from bench.gpu.networks.random_weights import random_weights
from serving.adapters.encoder.windows import encode_by_length
from serving.gpu.encoders.on_device import to_host
from serving.gpu.networks.batches import Network as PassNetwork
from serving.gpu.networks.batches import Window, packed, shape_of
from serving.gpu.networks.passes import DirectPasses, Passes
from serving.gpu.networks.precision import Precision
from serving.gpu.networks.qwen3.architecture import Qwen3Architecture
from serving.gpu.networks.qwen3.network import Qwen3, Qwen3Weights
from serving.gpu.rerankers.sequence_classifier import forward_of, passes_of

Rows = NDArray[np.float32]
Run = Callable[[Sequence[Window]], Rows]
"""Windows to vectors (windows, dimension), or to logits (windows,), on the host."""

HERE = "here"
NO_GRAPHS = "here, no graphs"
FIRST_TOKEN = 5
"""The first that is none of the special tokens of a BERT or an XLM-R."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network on a device, the ways to run it, and what it has to do at least."""

    body: Body
    runs: Mapping[str, Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class BertShape:
    """The numbers of a BERT or an XLM-R with one output, from the `config.json` of each."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    vocabulary: int
    positions: int
    is_roberta: bool = False


PUBLISHED_BERTS: Mapping[str, BertShape] = {
    "ms-marco-MiniLM-L6-v2": BertShape(
        layers=6, hidden=384, feed_forward=1536, heads=12, vocabulary=30_522, positions=512
    ),
    "bge-reranker-v2-m3": BertShape(
        layers=24,
        hidden=1024,
        feed_forward=4096,
        heads=16,
        vocabulary=250_002,
        positions=8194,
        is_roberta=True,
    ),
}


def qwen3_embedder(
    its: Qwen3Architecture, device: torch.device, precision: Precision, window: int
) -> Network:
    """Qwen3-Embedding, whose vectors are brought to unit length in every way."""
    weights = random_weights(its, device, precision)
    network = Qwen3(its, weights, window)
    passes = network.passes()
    without_graphs = DirectPasses(PassNetwork(network, device))
    library = _library_qwen3(its, weights)

    def last_states(inputs: Mapping[str, Tensor]) -> Tensor:
        states: Tensor = library(**inputs).last_hidden_state
        last = inputs["attention_mask"].sum(dim=1) - 1
        pooled = states[torch.arange(len(states), device=states.device), last].float()
        return torch.nn.functional.normalize(pooled)

    def by(chosen: Passes) -> Run:
        run = to_host(chosen.run)
        return lambda windows: encode_by_length(windows, run, its.hidden, passes.token_budget)

    return Network(
        qwen3_body(its),
        {
            HERE: by(passes),
            # On a CPU nothing is recorded.
            **({NO_GRAPHS: by(without_graphs)} if device.type != "cpu" else {}),
            "transformers": _on(device, last_states),
        },
    )


def qwen3_reranker(
    its: Qwen3Architecture, device: torch.device, precision: Precision, window: int
) -> Network:
    """Qwen3-Reranker, whose head has one row here: that of "yes" less that of "no"."""
    embedder = qwen3_embedder(its, device, precision, window)
    head = np.random.default_rng(3).standard_normal(its.hidden, np.float32)

    def scored(run: Run) -> Run:
        return lambda windows: run(windows) @ head

    return Network(embedder.body, {name: scored(run) for name, run in embedder.runs.items()})


def bert_reranker(
    its: BertShape, device: torch.device, precision: Precision, window: int
) -> Network:
    """A BERT or an XLM-R with one output: the network of transformers, recorded."""
    model = library_bert(its, device).to(getattr(torch, precision)).eval()
    run = to_host(passes_of(forward_of(model, None), device, window).run)

    def logits(inputs: Mapping[str, Tensor]) -> Tensor:
        made: Tensor = model(**inputs).logits[:, 0].float()
        return made

    def here(windows: Sequence[Window]) -> Rows:
        return run(windows)[:, 0]

    return Network(
        bert_body(its.layers, its.hidden, its.feed_forward),
        {HERE: here, "transformers": _on(device, logits)},
    )


def random_windows(lengths: Sequence[int], vocabulary: int) -> list[Window]:
    """Rows of these numbers of random tokens, none of them a special one."""
    draws = np.random.default_rng(sum(lengths))
    return [draws.integers(FIRST_TOKEN, vocabulary, length).tolist() for length in lengths]


def _on(device: torch.device, forward: Callable[[Mapping[str, Tensor]], Tensor]) -> Run:
    """All windows in one padded pass."""

    @torch.inference_mode()
    def run(windows: Sequence[Window]) -> Rows:
        batch = torch.from_numpy(packed(windows, shape_of(windows))).to(device)
        lengths, ids = batch[:, :1], batch[:, 1:]
        mask = (torch.arange(ids.shape[1], device=device) < lengths).long()
        rows: Rows = forward({"input_ids": ids, "attention_mask": mask}).cpu().numpy()
        return rows

    return run


def qwen3_config(its: Qwen3Architecture) -> Any:
    """The configuration of transformers' own network."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=its.vocabulary,
        hidden_size=its.hidden,
        intermediate_size=its.feed_forward,
        num_hidden_layers=its.layers,
        num_attention_heads=its.heads,
        num_key_value_heads=its.key_value_heads,
        head_dim=its.head_dimension,
        rms_norm_eps=its.epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": its.rope_theta},
        use_cache=False,
    )


def _library_qwen3(its: Qwen3Architecture, weights: Qwen3Weights) -> Any:
    """Transformers' own network over the same memory."""
    from transformers import Qwen3Model
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

    config = qwen3_config(its)
    with torch.device("meta"):
        model: Any = Qwen3Model(config).requires_grad_(False)
    model.load_state_dict(dict(weights.parts(its)), assign=True)
    # Of no checkpoint, so not among the weights, and still on `meta`.
    with weights.final_norm.device:
        model.rotary_emb = Qwen3RotaryEmbedding(config)
    return model.eval()


def library_bert(its: BertShape, device: torch.device) -> Any:
    """Transformers' classifier with one output, made on the device."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        XLMRobertaConfig,
        XLMRobertaForSequenceClassification,
    )

    settings: Any = {
        "vocab_size": its.vocabulary,
        "hidden_size": its.hidden,
        "num_hidden_layers": its.layers,
        "num_attention_heads": its.heads,
        "intermediate_size": its.feed_forward,
        "max_position_embeddings": its.positions,
        "num_labels": 1,
    }
    torch.manual_seed(0)
    with torch.device(device):
        if its.is_roberta:
            return XLMRobertaForSequenceClassification(
                XLMRobertaConfig(**settings, type_vocab_size=1)
            )
        return BertForSequenceClassification(BertConfig(**settings))
