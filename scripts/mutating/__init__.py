"""The mutation run: deliberate bugs, applied one at a time to a copy of the tree, each to be caught by a test."""
