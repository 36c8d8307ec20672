"""The files that are served as they are, and the headers that a browser obeys with them.

`ui` is the page `/ui`, of modules that browsers load as they are written. `ui/vendor` has Preact
and htm in one file, from the package htm 3.1.1 of npm, with their licences.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent
OPENAPI = FOLDER / "openapi.json"

HEADERS = {
    # Nothing comes from another host, and nothing of a text is ever run or drawn as HTML.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}

FILES = {
    "/openapi.json": "openapi.json",
    "/docs": "try.html",
    "/docs/try.js": "try.js",
    "/docs/try.css": "try.css",
}
PAGE = {
    "/ui": "ui/index.html",
    **{
        f"/{file.relative_to(FOLDER)}": str(file.relative_to(FOLDER))
        for folder in ("ui", "ui/vendor")
        for file in sorted((FOLDER / folder).iterdir())
        if file.suffix in (".js", ".css")
    },
}
"""The files of the page."""


def static_routes(*, ui: bool, grpc_port: int = 0, dashboard_port: int = 0) -> list[Route]:
    """A route for each file; with `ui`, for those of the page too, which name the ports."""
    routes = [_route(path, (FOLDER / name).read_bytes(), name) for path, name in FILES.items()]
    if ui:
        ports = {b"GRPC_PORT": grpc_port, b"DASHBOARD_PORT": dashboard_port}
        for path, name in PAGE.items():
            content = (FOLDER / name).read_bytes()
            for mark, port in ports.items():
                content = content.replace(mark, str(port).encode())
            routes.append(_route(path, content, name))
    return routes


def _route(path: str, content: bytes, name: str) -> Route:
    media_type, _ = mimetypes.guess_type(name)

    async def endpoint(request: Request) -> Response:
        del request
        return Response(content, headers=HEADERS, media_type=media_type)

    return Route(path, endpoint, methods=["GET"])
