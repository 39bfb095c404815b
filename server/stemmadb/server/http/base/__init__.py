"""What every part of HTTP uses, and nothing that knows a route.

`context` is what all requests of a server share, with `membership`, the list of spaces of each principal, and
`console_files`, the web console as it was built. `replies` is what a route answers, `error_table` gives each error
its status and form (HTTP-12), `parameters` reads the query of an address, `conditions` entity tags and ids of
events (HTTP-7, HTTP-8). What matters: an error code has one status, in one table.

Imports the service for its types, and the protocol; nothing else of HTTP.
"""
