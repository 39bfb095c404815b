"""The load process: sockets driven without an event loop library, and figures of what came back."""
