"""The queues before the models, and the threads that run them."""
