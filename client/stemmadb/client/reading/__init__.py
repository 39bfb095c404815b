"""Reading and structure: the past, queries, branches, merges, undo, blobs and access, asked of the server."""
