"""What the command line asks of a memory server: one JSON object a line, one answer each.

`operations_table` names every operation with its function. A command adds a line there.
"""
