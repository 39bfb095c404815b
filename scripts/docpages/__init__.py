"""The docs that are made or checked by running them: transcripts of commands, and the reference."""
