"""What all benchmarks share: rows, turns, targets, floors, the report and its plots."""
