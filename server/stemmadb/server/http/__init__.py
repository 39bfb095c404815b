"""HTTP beside the WebSocket: the same store for programs without an SDK (docs/spec/10-http.md).

`lazy_server` loads `web_server`, the only module that imports aiohttp, when the first request needs it.
`requests_in` takes a request through its checks (HTTP-13) to its route. Packages, each on those after it:
`description` (OpenAPI), `routes`, `streams` (of events) and `writes` (commits), `callers` (tokens and rights),
`base`.

Imports the service, the engine and the protocol; no socket, and nothing of the process.
"""
