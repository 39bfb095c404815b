"""The smallest parts of the model: names, JSON values, pointers, references, bodies and bounds.

Open `ids` for the names of things and `json_values` for what may be stored. `body` turns msgpack bytes into values
and back, `scan` finds out what is wrong with bytes that cannot be read, and `limits` lists every bound.

Imports only `stemmadb.protocol.errors`.
"""
