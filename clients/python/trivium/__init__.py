"""The client of the Trivium retrieval service."""
