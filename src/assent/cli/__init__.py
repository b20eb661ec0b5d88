"""The command line: `assent --help`."""

from assent.cli.app import main

__all__ = ["main"]
