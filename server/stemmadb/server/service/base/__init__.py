"""What all of the service uses: the transport's promises, settings, rates, batches, cursors, the request context.

`transport` defines what a listener and the service expect of each other, `CommitEvent` is a durable commit as
followers see it, and `request_context` has the caller of a request and its rights.

Imports the engine and the protocol.
"""
