"""The Memory Plugin v1 over HTTP: private, without authentication, on loopback or a unix socket.

`plugin` has the routes, `bodies` reads requests and writes answers, `guards` refuses browsers and foreign hosts,
`openapi` is the contract as a document.
"""
