"""The RPC methods of runs, with their parameter types.

`agent` has `agent`, `agents.*`, `tools.*` and the `sessions.*` methods that start or stop runs; `chat` has `chat.*`;
`lend` hands tools to another program; `record` reads what is kept of finished runs.
"""
