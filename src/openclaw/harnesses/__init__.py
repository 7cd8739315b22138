"""External runtimes that carry out a turn in place of our loop.

`acp` (`AcpHarness`, `AcpAgent`) makes an external coding agent look like a model provider; `acp_worker` is the worker
process that speaks the Agent Client Protocol with it.

`codex` carries out turns with `codex app-server`.

Start with `codex`.
"""
