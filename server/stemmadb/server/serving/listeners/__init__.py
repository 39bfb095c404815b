"""Listeners: sockets from accept to WebSocket, on `picows` or on `websockets`, and plain HTTP answers.

`Gate` accepts and bounds connections, `front` reads the first request, `handshake` decides what it gets, and
`connection` is a WebSocket as the service knows it.

`read_share` and `frame_bounds` keep one peer from taking the time of the others.

Imports `service.base` and nothing else of the service.
"""
