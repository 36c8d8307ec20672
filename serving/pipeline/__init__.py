"""The use cases, written against `serving.ports` alone."""
