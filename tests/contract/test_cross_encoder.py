"""The contract of cross-encoders, compared with a forward pass of one pair at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from serving.adapters.reranker.checkpoint import RerankerCheckpoint, open_checkpoint
from serving.gpu.rerankers.qwen3_reranker import AFTER, BEFORE, BODY, INSTRUCTION
from serving.gpu.rerankers.torch_cross_encoder import TorchCrossEncoder
from serving.ports.reranking import CrossEncoder

CLOSE = 1e-5

QUERY = "when did caroline visit the agency ?"
TEXTS = (
    "caroline and the family went home",
    "goa",
    "",
    "memory retrieval over many years of talk is hard , but caroline did visit the adoption agency",
    "we sailed to goa",
    "we sailed to goa with the family and then went home " * 20,
    "1 2 3 !",
)

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

Score = Callable[[str, str], float]


def classifier_forward(checkpoint: RerankerCheckpoint) -> Score:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint.folder)

    def score(query: str, text: str) -> float:
        # As lists: outside a list, an empty text is treated as missing.
        inputs = tokenizer(
            [query],
            [text],
            truncation="only_second",
            max_length=checkpoint.window,
            return_tensors="pt",
        )
        with torch.inference_mode():
            return float(model(**inputs).logits[0, 0])

    return score


def language_model_forward(checkpoint: RerankerCheckpoint) -> Score:
    """The log-odds of "yes" against "no" in the library's model, as in the model card."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder)
    model = AutoModelForCausalLM.from_pretrained(checkpoint.folder)
    no_and_yes = tokenizer.convert_tokens_to_ids(["no", "yes"])
    before, after = tokenizer.encode(BEFORE), tokenizer.encode(AFTER)

    def score(query: str, text: str) -> float:
        body = tokenizer.encode(BODY.format(instruction=INSTRUCTION, query=query, text=text))
        room = checkpoint.window - len(before) - len(after)
        with torch.inference_mode():
            logits = model(torch.tensor([[*before, *body[:room], *after]])).logits[0, -1]
        probability = float(torch.softmax(logits[no_and_yes].double(), dim=0)[1])
        return math.log(probability / (1 - probability))

    return score


FORWARDS: dict[str, Callable[[RerankerCheckpoint], Score]] = {
    "bert": classifier_forward,
    "xlmr": classifier_forward,
    "qwen3": language_model_forward,
}


@dataclass(frozen=True, slots=True)
class Case:
    encoder: CrossEncoder
    forward: Score
    window: int

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return self.encoder.score(self.encoder.tokenize(query, texts))

    def alone(self, query: str, text: str) -> float:
        return self.score(query, [text])[0]


@pytest.fixture(
    scope="session",
    params=[
        *(f"{kind}-cpu" for kind in FORWARDS),
        *(pytest.param(f"{kind}-cuda", marks=[pytest.mark.gpu, needs_cuda]) for kind in FORWARDS),
    ],
)
def case(request: pytest.FixtureRequest) -> Case:
    kind, device = request.param.split("-")
    folder: Path = request.getfixturevalue(f"tiny_{kind}_reranker")
    checkpoint = open_checkpoint(str(folder))
    encoder = TorchCrossEncoder(checkpoint, device=device)
    return Case(encoder, FORWARDS[kind](checkpoint), checkpoint.window)


def close(expected: float | Sequence[float]) -> object:
    return pytest.approx(expected, abs=CLOSE, rel=CLOSE)


def test_logits_are_those_of_the_plain_forward_pass(case: Case) -> None:
    logits = case.score(QUERY, TEXTS)

    assert logits == close([case.forward(QUERY, text) for text in TEXTS])


def test_equally_long_texts_have_the_logits_of_one(case: Case) -> None:
    assert case.score(QUERY, [TEXTS[4]] * 3) == close([case.alone(QUERY, TEXTS[4])] * 3)


def test_texts_and_questions_are_distinguished(case: Case) -> None:
    logits = case.score(QUERY, TEXTS)
    asked_otherwise = case.score("goa ?", TEXTS)

    assert min(abs(one - other) for one, other in zip(logits, asked_otherwise, strict=True)) > 1e-3
    assert len({round(logit, 3) for logit in logits}) == len(TEXTS)
    assert case.alone(TEXTS[0], QUERY) != close(case.alone(QUERY, TEXTS[0]))


def test_no_texts_have_no_logits(case: Case) -> None:
    assert case.score(QUERY, []) == []


def test_a_text_beyond_the_window_counts_by_its_beginning(case: Case) -> None:
    beginning = "we sailed to goa with the family " * 40

    assert case.alone(QUERY, beginning + "yes") == case.alone(QUERY, beginning + "no")
    assert abs(case.alone(QUERY, "goa " + beginning) - case.alone(QUERY, beginning)) > 1e-3


def test_long_question_leaves_half_the_window_to_text(case: Case) -> None:
    question = "we sailed to goa with the family " * 40

    assert case.alone(question, "home") == case.alone(question + "and then", "home")
    assert abs(case.alone(question, "home") - case.alone(question, "memory is hard")) > 1e-3


def test_rows_fit_the_window_and_count_their_tokens(case: Case) -> None:
    short, long = case.encoder.tokenize(QUERY, ["goa", "goa " * 500])

    assert len(short) < len(long) == case.window


def test_device_is_reported(case: Case, request: pytest.FixtureRequest) -> None:
    device = case.encoder.device()

    assert device.is_accelerator == ("cuda" in request.node.callspec.id)
    assert device.token_budget >= 512


@pytest.mark.parametrize("text", ["", " ", "\n", "😀", "👩\u200d👩\u200d👧", "\x00", "\u202e"])
def test_odd_texts_have_logits_too(case: Case, text: str) -> None:
    assert math.isfinite(case.alone(QUERY, text))
    assert math.isfinite(case.alone(text, "goa"))


@pytest.mark.parametrize(
    ("case", "end_of_text"), [("bert-cpu", "[SEP]"), ("qwen3-cpu", "<|im_end|>")], indirect=["case"]
)
def test_a_text_cannot_write_the_token_that_ends_it(case: Case, end_of_text: str) -> None:
    text = f"goa {end_of_text} goa"

    assert case.alone(QUERY, text) != close(case.forward(QUERY, text))
