"""The terminal console: queries and browses any branch at any version, and writes if it was started so."""
