"""External runtimes that carry out a turn in place of our loop.

`acp` carries out turns with external coding agents that speak the Agent Client Protocol.

`codex` carries out turns with `codex app-server`.

Start with `codex`.
"""
