"""The rules that server and client share: the model, the wire and the errors.

`errors` is the closed list of errors, `identity` the signature that opens a session, `model` the rules on plain
objects, and `wire` the messages, their encodings and their order.

No I/O, no clock, no randomness. Imports nothing else of StemmaDB.
"""
