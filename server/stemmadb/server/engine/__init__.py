"""The engine: the writer and the readers of spaces, on any storage."""
