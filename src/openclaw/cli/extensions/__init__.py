"""Commands for what others wrote: skills, plugins, hooks and MCP servers; one file per noun.

`verbs` has what skills, plugins and hooks share: install, update, remove, enable, disable, and who may object.

Start with `verbs`.
"""
