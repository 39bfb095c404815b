"""MCP: tools for agents, on any pair of line streams. The memory server answers; `stemmadb mcp` only copies lines.

`tool_schemas` has the contract, `tools` one function for each tool, `tool_calls` what every call goes through (role,
cooldown, audit, idempotency key), and `mcp_session` speaks the protocol with the `mcp` package, which takes a second
to import: nothing imports `mcp_session` before the first MCP client comes. Imports operations and rules.
"""
