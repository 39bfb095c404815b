"""The one ordered stream of a session: verdicts, changes and answers, frame by frame (SYNC-1..7).

`Outbox` decides what the next frame holds, `session_watch` tracks what its client has of each watch, `broadcast`
sends one encoded frame to all sessions for which it is equal.

Imports `service.watch` and `service.base`.
"""
