"""What is at each path: requests become messages of the protocol, and answers their JSON form (HTTP-5).

`route_table` lists every route with its parameters, body and answer; `request_bodies` reads the bodies. The
modules `*_routes` answer, and `console_pages` below /console (CONSOLE-4). What matters: nothing is implemented
twice, so that a route gives what the same question gives on a WebSocket, and HTTP-13 and the OpenAPI document
follow from the one table.

Imports streams, writes, callers and the base of HTTP, the service, the engine and the protocol.
"""
