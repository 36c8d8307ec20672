"""Sessions of ONNX Runtime on the CPU, as encoders and rerankers run them."""

from __future__ import annotations

from pathlib import Path

import onnxruntime

# The builds of the library for some systems report how they are used.
onnxruntime.disable_telemetry_events()


def open_session(graph: Path, threads: int) -> onnxruntime.InferenceSession:
    """Loads a graph; `threads` are for one forward pass.

    Raises:
        Exception: Whatever the library raises for a file that is missing or damaged.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Idle threads sleep; spinning would occupy a core.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The fused SkipLayerNormalization of 1.31 is slower on the CPU than separate operators: 32
    # texts of 16 tokens in 89 ms instead of 78.
    return onnxruntime.InferenceSession(
        str(graph),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],
    )
