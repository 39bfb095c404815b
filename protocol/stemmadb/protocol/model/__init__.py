"""The rules on plain objects: values, facts, patches, commits, branches, merges, queries."""
