"""Interfaces: each validates what came in, calls `operations`, and translates the answer. Nothing is decided here.

`http` is the Memory Plugin v1, `json` is one JSON request and one answer, `command` is what the command line asks
over the memory server's socket (it carries requests of `json`), `files` are task files in a project. A further
interface is a package here: it gets an `OpenedMemory` and a `MemoryCaller`; `process.memory_server` starts it.
Imports operations, rules and libraries; never the server, and no other interface, but for `json` in `command`.
"""
