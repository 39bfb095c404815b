"""What the past tells: differences, blame, the origin of each leaf, and what an erasure or a compaction removes.

`difference` compares two states, `blame` names the commit behind each leaf, `origins` traces values through merges,
`erasure` finds every copy of an erased value, and `retention` says which bodies a compaction may drop.

Imports `commit`, `log`, `patch` and `values`.
"""
