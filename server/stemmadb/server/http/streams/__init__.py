"""Streams of events and long polls (HTTP-10).

`watch_routes` opens a session inside the server that holds one watch; `stream_events` turns its frames into events
with whole values. What matters: streams of the same watch share a frame and its event, and the map built from
events is the query's answer at every `ready`.

Imports callers, the base of HTTP, the service and the protocol.
"""
