"""The wire: every message, its two encodings, and the order in which messages may come (WIRE-1..6).

`messages` defines their shapes, `codec` turns them into bytes or text and back, `connection` is each end of a
connection without a socket, and `records` turns messages about the log into records of the model.

Imports the model and the errors. No I/O.
"""
