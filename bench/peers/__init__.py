"""Other retrieval libraries and the service: same questions, same encoder, in turns."""
