"""What can be done with memory. Interfaces call these functions and translate; rules decide; this package writes.

Open `memory_space` first: `MemorySpace` is one space with its index, clock and locks, and `MemorySpace.write` runs
every write: locks by key, one transaction, tried again on a conflict, once for an idempotency key. Then `namespaces`,
`memories`, `searching`, `forgetting` and `erasing` (two steps, a queue), `sweeping`, `checking` and `histories`:
functions that take a `MemorySpace` and a `MemoryCaller`. `decisions`, `proposals` and `ranking` keep decisions.
`lessons` writes and adjusts what agents learn, and `lesson_reading` ranks it. `plan_store` keeps plans of tasks
(`plan_links` their dependencies). Imports the rules, the index and the public client.
"""
