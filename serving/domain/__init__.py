"""The values and rules of retrieval: pure, without I/O, clock or framework."""
