"""The wire: every message, its two encodings, and the order in which messages may come (WIRE-1..6)."""
