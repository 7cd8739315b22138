"""The RPC methods of runs, with their parameter types.

`agent` has `agent`, `agents.*` and the `sessions.*` methods that start or stop runs; `chat` has `chat.*`; `tools` lists
and calls tools, and lends them to another program; `record` reads what is kept of finished runs.
"""
