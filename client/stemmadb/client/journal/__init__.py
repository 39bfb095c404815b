"""The journal: pending work and the tray of rejected commits on disk (NURSERY-5)."""
