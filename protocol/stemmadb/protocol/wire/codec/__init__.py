"""Codecs: messages to bytes or text and back, with every bound enforced (WIRE-1).

`msgpack_codec` and `json_codec` speak the two subprotocols, `bounds` checks counts and sizes, and `failures` turns
what a decoder reports into one of our typed errors. `fast_path` reads ordinary commits in C.

Imports `messages` and the model. No I/O.
"""
