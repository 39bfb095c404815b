"""Requests and their answers: each read or planned write of a session, limited to what its caller may read.

`dispatch` maps message types to the modules here; `readable_ids` narrows reads and `redaction` cleans errors, so
that neither reveals ids outside the rights of a caller (ACL-2).

Imports `service.base` and the engine.
"""
