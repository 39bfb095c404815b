"""Fuzzing: targets that allow nothing but a typed error, their seeds, a seeded mutator, and the kept corpus."""
