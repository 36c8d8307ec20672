"""Runs the command line: `python -m trivium.cli`."""

from trivium.cli import main

main()
