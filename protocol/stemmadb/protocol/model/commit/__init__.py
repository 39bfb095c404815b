"""The decision on a commit: from the client's request to the facts that the log appends.

`request` is what a client sends, `proposal.prepare` reads and checks it once, and `admission.decide` decides a whole
batch on a view of the state. `fast_path` decides ordinary commits in one call, in C where the extension was built.

Imports `log`, `access`, `patch` and `values`. No I/O and no clock: time and salts are arguments.
"""
