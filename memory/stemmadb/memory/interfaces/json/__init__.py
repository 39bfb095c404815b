"""The JSON interface: one request, one answer, for scripts. `answers.answer` is all of it.

Imports operations and rules. The command line carries its requests to the memory server.
"""
