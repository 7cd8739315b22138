"""The workspace: the directory of an agent's own files (AGENTS.md, SOUL.md, MEMORY.md and others).

`seed` finds the directory and fills it on the first run, `files` reads the bootstrap files, `budget` selects and
shortens them for the prompt (start with these two), `history` stores versions; `agents.files.*` methods are in `rpc`.
"""
