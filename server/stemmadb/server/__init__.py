"""The server: a durable log for each space and the sessions that follow it (not built yet)."""
