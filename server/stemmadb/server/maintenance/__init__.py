"""Maintenance of a data directory: verify, back up, restore, export and import (KEEP-1..3).

`verify` walks the whole history of a space, with one `check_` module for each thing it checks. `backup` and `restore`
copy directories, `export` and `import_space` carry one space as a stream, whose lines `stream` defines.

Imports the engine and the storage, including the SQLite backend.
"""
