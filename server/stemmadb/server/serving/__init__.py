"""The process: configuration, listeners, plain HTTP, logs, metrics, start and graceful stop.

`app` starts and stops everything, `settings` has the configuration, `listeners` the sockets, and `health` and
`metrics` the HTTP endpoints.

Imports the service, the engine and the storage.
"""
