"""The commands that go through a server; the `stemmadb` command finds them by their entry points."""
