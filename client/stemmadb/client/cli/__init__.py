"""The `stemmadb` command: one group that any part of StemmaDB adds its commands to.

`group` finds the commands, `commands` has those that talk to a server, `connection` opens a space for one, `exits`
maps errors to exit codes, and `layouts` arranges results for people.

Imports the SDK's facade, reading, keys and the protocol.
"""

from stemmadb.client.cli.early_interrupt import leaving_at_once

with leaving_at_once():  # the rest takes some tenths of a second to load
    from stemmadb.client.cli.group import main

__all__ = ["main"]
