"""The simulation: apps, a server and everything that fails, in one process, on virtual time, from one seed.

    run(7)                                    # a Report, or an AssertionError that prints the options of the run
    .venv/bin/python tests/simulation/run.py --seed 7 --shrink

While faults strike, everything that is told is held against what is durable. Then the world heals, and within a
bounded time everything has to be decided and everybody has to hold the same.
"""
