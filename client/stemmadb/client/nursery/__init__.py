"""The nursery: confirmed values, pending commits, and the views made of both (NURSERY-1..6).

A session drives `nursery.Nursery`: commits and frames go in, visible changes and outcomes come out. `confirmed`
caches what the server sent, `layers` applies pending commits on top, `overlay` is what is shown, `view` an immutable
capture of it, and `cascade` rejects what depended on a rejected commit.

Pure: no I/O, no clock, no randomness. Imports only `stemmadb.protocol`.
"""
