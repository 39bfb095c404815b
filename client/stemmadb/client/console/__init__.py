"""The terminal console: queries and browses any branch at any version, and writes if it was started to.

`session` runs one console, `catalogue` lists its commands, `state` says where the user is, and `completing` and
`highlighting` help while typing.

Imports the command line, the SDK's facade and the protocol.
"""
