"""Commands for what others wrote: skills, plugins, hooks and MCP servers; one file per noun."""
