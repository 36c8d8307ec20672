"""Any sentence-transformers model, on any device that torch supports."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from serving.adapters.encoder.checkpoint import EncoderCheckpoint, in_precision
from serving.adapters.encoder.windows import padded
from serving.domain.errors import DependencyError
from serving.gpu.encoders.on_device import DeviceEncoder
from serving.gpu.networks.passes import tokens_of_a_pass, use_threads
from serving.gpu.networks.precision import Precision
from serving.ports.embedding import Device, TokenIds


class TorchEncoder(DeviceEncoder):
    """A `TextEncoder` over the sentence-transformers library.

    A precision other than float32 is part of the model's fingerprint, since full bfloat16 moves
    vectors below a cosine of 0.9999. `threads` are torch's for one forward pass, process-wide.

    Raises:
        DependencyError: The checkpoint or the device cannot be used.
    """

    def __init__(
        self,
        checkpoint: EncoderCheckpoint,
        *,
        device: str = "cpu",
        precision: Precision = "float32",
        threads: int = 1,
    ) -> None:
        # Imported late: the import takes seconds, which other runtimes avoid.
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # type: ignore[no-untyped-call]
        use_threads(device, threads)
        super().__init__(checkpoint, in_precision(checkpoint.model, precision))
        try:
            self._network = SentenceTransformer(
                str(checkpoint.folder),
                device=device,
                local_files_only=True,
                model_kwargs={"dtype": precision},
            ).eval()
        except (OSError, ValueError, RuntimeError, AssertionError) as error:
            why = f"cannot be loaded on {device!r} ({type(error).__name__})"
            raise DependencyError("embedder", why) from error
        self._torch_device = torch.device(device)
        self._device = Device(
            is_accelerator=self._torch_device.type != "cpu",
            token_budget=tokens_of_a_pass(self._torch_device),
        )

    @torch.inference_mode()
    def _run(self, windows: Sequence[TokenIds]) -> torch.Tensor:
        ids, mask = (torch.from_numpy(array).to(self._torch_device) for array in padded(windows))
        # The mask must not be derived from `ids != pad`, since some models end every text with
        # the padding token and pool its state.
        features = self._network({"input_ids": ids, "attention_mask": mask})
        embedding: torch.Tensor = features["sentence_embedding"]
        return embedding.float()
