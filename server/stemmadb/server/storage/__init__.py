"""Storage: the port, and one module or package for each backend."""
