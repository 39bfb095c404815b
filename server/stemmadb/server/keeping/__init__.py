"""Keeping a store: verify it, back it up and restore it, carry a space elsewhere with its whole history."""
