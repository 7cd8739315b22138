"""Commands for what others wrote: skills, plugins, hooks and MCP servers; one file per noun.

`review` is what their installers share: the report of findings, and who may object; `skills_install` installs skills.

Start with `plugins`.
"""
