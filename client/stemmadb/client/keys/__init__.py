"""The user's identities and the local names of spaces, stored in the user's configuration directory.

`identity` signs for a principal, `ring` holds the keys of a user, `names` maps a name to a space, and `private_files`
writes files that only their owner can read.

Imports dialing (to normalise addresses) and the protocol.
"""
