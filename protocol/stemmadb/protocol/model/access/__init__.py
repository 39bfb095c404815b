"""Access: the roles in a space and the delegations that hand rights on.

`access_roles` says what a principal may do, and for which ids; `delegation` reads and verifies signed tokens, each
never wider than the one before it in the chain. `access_token` is the secret that HTTP needs: a last link that its
principal signs for itself. `text_form` is how people pass both on.

Imports only `values`.
"""
