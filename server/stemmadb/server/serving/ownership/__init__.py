"""Which process serves a space, and how a connection gets there.

`port` says what every ownership promises: `Ownership` names the owner of a space, `PassingOn` brings a connection
to it. `SingleProcess` serves everything and is the default; `WorkerOwnership` divides the spaces among the workers of
one machine. `routing` is what a listener's `Front` asks: it reads the space from the path of a request and collects
the questions of one turn of the event loop.

Imports the protocol only: listeners stand on it.
"""
