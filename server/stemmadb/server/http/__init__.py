"""HTTP beside the WebSocket: the same store for programs without an SDK (docs/spec/10-http.md).

`requests_in` takes a request through its checks, and `route_table` lists every route. The modules `*_routes` answer
them by sending protocol messages to `service.requests`, so that nothing is implemented twice (HTTP-5). `bearer` says
who asks, `calls` lets the caller into its space, `error_table` turns errors into answers, and `openapi` describes all
of it. Only `web_server` imports aiohttp, and `lazy_server` imports `web_server` when the first request needs it.

Imports the service, the engine and the protocol; no socket, and nothing of the process.
"""
