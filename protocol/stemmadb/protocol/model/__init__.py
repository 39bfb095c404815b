"""The rules on plain objects: values, facts, patches, commits, branches, merges, queries and watches.

Start with `log` (facts and commit records) and `commit` (the decision on a commit). `values` and `patch` are below
them; `history`, `merge`, `schema`, `query` and `watch` are built on them.

Pure: no I/O, no clock, no randomness. Imports only `stemmadb.protocol.errors` and `identity`.
"""
