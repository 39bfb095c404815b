"""The nursery: confirmed and pending, and the view that is made of both. Pure: no I/O and no clock (NURSERY-6)."""
