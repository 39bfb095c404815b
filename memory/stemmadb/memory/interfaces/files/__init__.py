"""Task files: a plan in `.claude/memory/` of a project, for people, scripts and agents, kept in step with the store.

`working_copy.WorkingCopy` is the directory; `sync` brings directory and store together by way of a `PlanStore`;
`finish` runs tests that a person allowed; `project` finds the project and its namespace; `lib/` has the scripts that
are copied into a project. Imports rules, `operations.plan_store` and the standard library.
"""
