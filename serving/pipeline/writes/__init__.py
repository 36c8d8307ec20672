"""Writing and what follows from it: ingest, forget, the projections, statistics."""
