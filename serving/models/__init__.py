"""Neural networks as plain torch: tensors in, tensors out.

They handle weight files and devices, but no texts, queues or ports of the service. The adapters for
embedding and for reranking run the same networks without importing each other.
"""
