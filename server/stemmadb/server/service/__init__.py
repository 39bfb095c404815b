"""The service: sessions, live watches, requests and access, without a socket; a listener brings the messages."""
