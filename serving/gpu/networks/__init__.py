"""Neural networks as plain torch: tensors in, tensors out.

They handle weight files and devices, but no texts, queues or ports of the service. Encoders and
rerankers run the same networks.
"""
