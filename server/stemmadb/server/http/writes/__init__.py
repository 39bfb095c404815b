"""Commits over HTTP, each written once (HTTP-9).

`identities` makes a session, a local and a nonce from an Idempotency-Key, or from a session of the server;
`commits` submits a proposal, and answers from the record of the one that was accepted. What matters: the nonce
follows from a secret of the space, so that nobody can test a guess of an erased value.

Imports callers, the base of HTTP, the service, the engine and the protocol.
"""
