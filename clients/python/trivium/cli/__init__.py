"""The command line of the client."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs `trivium`; needs the extra `cli`."""
    try:
        from trivium.cli.app import trivium
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(f"needs {error.name}: install trivium-client[cli]", file=sys.stderr)
        sys.exit(2)
    trivium(prog_name="trivium")
