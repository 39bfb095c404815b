"""Settings: every one with its description, default and bounds, and where each value comes from.

`Config` is the whole of them, `sources` merges defaults, a TOML file, the environment and flags, and `problems` are
the errors an operator sees.

Imports the settings of the engine and the service.
"""
