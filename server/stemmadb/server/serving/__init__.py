"""The process: configuration, listeners, plain HTTP, logs, metrics, start and graceful stop."""
