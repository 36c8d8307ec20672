"""Builds the service from adapters and use cases; does not import Ray."""
