"""Micro benchmarks of the pure core, each beside the library that one would take instead; run by name."""
