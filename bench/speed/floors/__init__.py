"""Lower bounds of the service: the encoder alone, and gRPC alone."""
