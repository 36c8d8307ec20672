"""Our loggers through Serve's, so that they come as JSON with the request's id."""

from __future__ import annotations

import logging

SERVE_LOGGER = "ray.serve"


def log_through_serve() -> None:
    """Gives the service's loggers the handlers and the level of this replica's own."""
    ours, serves = logging.getLogger("serving"), logging.getLogger(SERVE_LOGGER)
    ours.handlers = serves.handlers
    ours.setLevel(serves.level)
    ours.propagate = False
