"""What the disk and SQLite give by themselves: the limits that nothing built on them can pass."""
