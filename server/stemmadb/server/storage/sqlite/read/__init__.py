"""Reading a space's file: `pool` has the connections, `read_view` one read transaction, `reader` answers the port.

`replay` and `last_facts` find what states are folded from, `history`, `listing` and `commit_filter` find facts, ids
and commits, `stored_structure` branches and tags, and `identities` what was accepted before.

Imports the storage port and `connection`, `schema` and `blobs` of `storage.sqlite`; writes nothing.
"""
