"""Other retrieval libraries beside the service: same questions, same encoder, in turns."""
