"""Puts `WholeRequests` in front of Serve's HTTP server, by the one place where it is started.

Serve has no option for it: what is in front of the application runs when Serve has already counted
a request as a call. A test checks that Serve still starts its server there.
"""

from __future__ import annotations

from typing import Any

from serving.http.whole_requests import WholeRequests
from serving.rpc.identity.access import Access

START = "start_asgi_http_server"


def read_whole_requests(access: Access) -> None:
    """Makes the HTTP server that this replica starts from now on read whole requests first.

    Raises:
        RuntimeError: This version of Ray is not supported.
    """
    from ray.serve._private import replica

    start: Any = getattr(replica, START, None)
    if not callable(start):
        raise RuntimeError(f"unsupported version of Ray: its replicas have no {START}")
    if getattr(start, "reads_whole_requests", False):
        return

    async def started(app: Any, http_options: Any, **more: Any) -> Any:
        return await start(WholeRequests(app, access), http_options, **more)

    started.reads_whole_requests = True  # type: ignore[attr-defined]
    setattr(replica, START, started)
