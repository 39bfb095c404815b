"""StemmaDB as a system that is measured: the service, the engine in process, and the SDK."""
