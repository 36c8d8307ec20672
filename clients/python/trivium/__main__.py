"""Runs the command line: `python -m trivium`."""

from trivium.cli import main

main()
