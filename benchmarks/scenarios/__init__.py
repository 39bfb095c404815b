"""The scenarios: each a module with NAME, TITLE and `run(plan)`, in the order in which they run."""
