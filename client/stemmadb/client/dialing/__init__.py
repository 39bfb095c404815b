"""Ways to reach a server: a channel carries the messages of one session.

`websocket` makes real connections (`protocol.wire.channel` says what they promise), `urls` and `tls` read addresses
and certificates, `failures` explains why a server cannot be reached, and `backoff` spaces out new attempts.

Imports only the protocol.
"""
