"""The table of all routes of RPCs, which reads the RPC from a request's first line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.routing import compile_path

from serving.http.connect import CONNECT_PATHS
from serving.http.designs import DESIGNS
from serving.http.plain import PLAIN_ROUTES

_ROUTES: Sequence[tuple[str, str, str]] = [
    *(("POST", path, method.name) for path, method in CONNECT_PATHS.items()),
    *PLAIN_ROUTES,
    *((design.verb, design.path, "Retrieve") for design in DESIGNS),
]
_PATTERNS: Sequence[tuple[str, re.Pattern[str], str]] = [
    (verb, compile_path(path)[0], rpc) for verb, path, rpc in _ROUTES
]


def called_rpc(verb: str, path: str) -> str | None:
    """The name of the RPC; None for files, and for what there is no route for."""
    verb = "GET" if verb == "HEAD" else verb
    called = (rpc for of, pattern, rpc in _PATTERNS if of == verb and pattern.match(path))
    return next(called, None)
