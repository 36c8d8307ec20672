"""Quantizes an ONNX graph: weights in int8, activations in uint8 when it runs."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.quant_utils import add_pre_process_metadata


def quantize(graph: Path, quantized: Path) -> None:
    """Writes the quantized graph; takes 2 to 4 s of CPU for 6 to 12 layers.

    Only matrix products are quantized, with a scale for each output channel. With one scale for a
    whole matrix, or with the embeddings quantized too, recall drops (docs/encoder.md). Weights use
    7 of the 8 bits: on processors without VNNI instructions the sum of two full products
    overflows, so vectors would depend on the processor.
    """
    model = onnx.load(graph)
    # Otherwise it warns that shapes may be unknown, though it infers them itself.
    add_pre_process_metadata(model)
    quantize_dynamic(
        model,
        quantized,
        per_channel=True,
        reduce_range=True,
        op_types_to_quantize=["MatMul", "Gemm"],
        weight_type=QuantType.QInt8,
    )
