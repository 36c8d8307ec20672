"""Any sentence-transformers model, on any device that torch knows."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from serving.adapters.encoder.checkpoint import Checkpoint, in_precision
from serving.adapters.encoder.on_device import to_host, vectors_by_length
from serving.adapters.encoder.windows import WindowTokenizer, encode_by_length, padded
from serving.domain.errors import DependencyError
from serving.models.device_vector import DeviceVector
from serving.models.passes import tokens_of_a_pass
from serving.models.precision import Precision
from serving.ports import Device, EmbeddingModel, TokenIds, Vectors


class TorchEncoder:
    """A `TextEncoder` over the sentence-transformers library.

    Args:
        checkpoint: What to load.
        device: As torch names it: "cpu", "cuda", "cuda:1".
        precision: Of weights and arithmetic. Other than float32 it is part of the model's
            fingerprint, since all of it in bfloat16 moves vectors by more than 0.9999.
        threads: Torch's threads for one forward pass, of the whole process; None
            leaves them.

    Raises:
        DependencyError: The checkpoint or the device cannot be used.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        device: str = "cpu",
        precision: Precision = "float32",
        threads: int | None = 1,
    ) -> None:
        # Here, since it takes seconds to import and a start without it does not pay for it.
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # type: ignore[no-untyped-call]
        if threads is not None:
            torch.set_num_threads(threads)
        self._described = in_precision(checkpoint.model, precision)
        self._tokenizer = WindowTokenizer(checkpoint)
        try:
            self._model = SentenceTransformer(
                str(checkpoint.folder),
                device=device,
                local_files_only=True,
                model_kwargs={"dtype": precision},
            ).eval()
        except (OSError, ValueError, RuntimeError, AssertionError) as error:
            why = f"cannot be loaded on {device!r} ({type(error).__name__})"
            raise DependencyError("embedder", why) from error
        self._device = torch.device(device)
        self._padded_tokens = tokens_of_a_pass(self._device)

    def model(self) -> EmbeddingModel:
        """The model that makes the vectors."""
        return self._described

    def device(self) -> Device:
        """What computes it."""
        return Device(is_accelerator=self._device.type != "cpu", token_budget=self._padded_tokens)

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question with its prompt; what exceeds the window is cut."""
        return self._tokenizer.query(text)

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text into at least one window; each begins within the one before."""
        return self._tokenizer.document(text)

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes one row per window, in their order."""
        return encode_by_length(
            windows, to_host(self._run), self._described.dimension, self._padded_tokens
        )

    def encode_queries(self, windows: Sequence[TokenIds]) -> list[DeviceVector | None]:
        """Makes the same rows, which stay on the device; None for one that is not sound."""
        return vectors_by_length(windows, self._run, self._described.dimension, self._padded_tokens)

    @torch.inference_mode()
    def _run(self, windows: Sequence[TokenIds]) -> torch.Tensor:
        ids, mask = (torch.from_numpy(array).to(self._device) for array in padded(windows))
        # The mask is passed on: it must not be made of `ids != pad`, since some models
        # end every text with the padding token and pool that one.
        features = self._model({"input_ids": ids, "attention_mask": mask})
        embedding: torch.Tensor = features["sentence_embedding"]
        return embedding.float()
