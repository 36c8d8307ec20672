"""`trivium-import`, as `python -m trivium_importers`."""

from __future__ import annotations

from trivium_importers.command import trivium_import


def main() -> None:
    """Runs the command."""
    trivium_import(prog_name="trivium-import")


if __name__ == "__main__":
    main()
