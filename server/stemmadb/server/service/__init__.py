"""The service: sessions, live watches, requests and access, without a socket; a listener brings the messages.

`service` is the entry point. `session` holds sessions and open spaces, `stream` their frames, `requests` the answers,
`watch` the live queries, and `base` what all of them use.

Imports the engine and the protocol; it knows no socket, no clock and no configuration.
"""
