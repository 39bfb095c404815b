"""Several nodes on one PostgreSQL database: a connection is passed on to the node that owns its space.

`ownership` asks the database who owns a space and claims what nobody owns, `passing` relays connections over TCP,
`members` lists the spaces of a principal, and `node` opens the storage and ends the hubs of spaces that this node has
lost.

Imports the ownership port, the listeners, the engine's store and the PostgreSQL storage.
"""
