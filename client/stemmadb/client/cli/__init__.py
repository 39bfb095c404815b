"""The `stemmadb` command: one group that any part of StemmaDB adds its commands to."""

from stemmadb.client.cli.group import main

__all__ = ["main"]
