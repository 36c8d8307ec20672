"""Neural networks as plain torch: tensors in, tensors out.

They know files of weights and devices, but no text, no queue and no port of the service: the
adapters for embedding and for reranking run the same network, and neither imports the other.
"""
