"""Several processes on one data directory: a parent that watches, and workers that each serve their share of spaces.

`passing` gives a connection to the worker that serves its space, `mailbox` is where a worker takes them.

Imports the listeners and the ownership port.
"""
