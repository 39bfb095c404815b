"""Ways to reach a server: a channel carries whole messages of one session."""
