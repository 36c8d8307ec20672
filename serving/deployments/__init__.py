"""Ray Serve: the only importer of ray, and the composition root."""
