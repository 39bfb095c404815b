"""Agent memory: memories of agents kept in a StemmaDB space, found by words, expired by time, truly forgotten.

`rules/` is pure. `operations/` runs the rules in transactions of the public client SDK. `index/` finds memories.
`interfaces/` translate (HTTP, MCP, JSON, task files) and decide nothing. `process/` runs all of it as one memory
server for a data directory, and is the only package here that may import the server.
"""
