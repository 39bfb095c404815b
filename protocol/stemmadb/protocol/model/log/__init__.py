"""The log of a space as plain objects: facts, commit records, branches, and states folded from them.

`Fact` and `Commit` are the two records, `chain` verifies the hashes that link them, `branch_spans` says which facts a
branch sees at a version, `ancestry` finds merge bases, `replay` folds facts into a state, and `state` defines what a
decision looks at.

Imports `values`, `patch` and `access`.
"""
