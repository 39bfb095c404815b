"""Queries: what a client asks, the walk along links, and the nested answer.

`Query` is the question, `traversal.traverse` walks from its roots level by level, and `nested_result` puts linked
values in the place of their links.

Imports `schema` and `values`; it reads nothing itself, its caller hands it the values it asks for.
"""
