"""The command line: `rue demo`, `rue report` and commands that other distributions add."""

from rue.cli.commands import app

__all__ = ["app"]
