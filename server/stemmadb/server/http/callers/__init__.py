"""Who asks: from a header to a caller with rights in one space (TOKEN-2, TOKEN-3, HTTP-6).

`bearer` verifies access tokens and remembers only that signatures are right; `calls` lets the caller into its
space and asks the service as a session would. What matters: rights are looked up at every question, and no part of
a token is logged.

Imports the base of HTTP, the service and the protocol.
"""
