"""The commands that work on a data directory; the `stemmadb` command finds them by their entry points."""
