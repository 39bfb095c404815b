"""`python -m stemmadb.client.cli` is the `stemmadb` command."""

from stemmadb.client.cli import main

if __name__ == "__main__":
    main()
