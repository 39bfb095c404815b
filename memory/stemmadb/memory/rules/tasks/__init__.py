"""The rules of task files, pure: what a plan is, what is wrong with it, and how three versions of a file become one.

`ids` names tasks, `plan.TaskPlan` answers questions about a plan, `findings` lists what breaks a rule, `index` makes
`task-index.json`, `file_text` reads and writes files, `merge` joins file, store and base, `paths` says which files
count. Imports only libraries and `rules.ids`. The scripts in `interfaces/files/lib` do the same in jq, and a test
compares the two.
"""
