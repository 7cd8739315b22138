"""The agent's tools: files, commands, web, images, plan, browser, MCP servers.

Each module holds one tool or a small family, implementing `core.tool.Tool`: `files` (read, ls, write), `edit`, `patch`,
`search` (grep, find), `exec`, `process`, `web_fetch`, `web_search`, `image`, `plan`. `build` assembles them, `base` has
the base classes and makes JSON schemas of argument structs, `paths` resolves and writes files, `background` keeps
running commands, `sandboxed` runs file tools in a sandbox.

Start with `build`, then any tool.
"""
