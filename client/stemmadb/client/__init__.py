"""The client: confirmed and pending tiers over one session (not built yet)."""
