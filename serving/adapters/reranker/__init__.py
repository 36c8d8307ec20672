"""The reranker in ONNX Runtime, and the checkpoints of those in torch (`serving.gpu.rerankers`)."""
