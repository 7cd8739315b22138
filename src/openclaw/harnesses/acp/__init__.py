"""Turns carried out by external coding agents that speak the Agent Client Protocol.

`choice` names the agent of a turn; `harness` (`AcpHarness`, `AcpTurn`) carries it out; `updates` (pure) turns what the
agent reports into events; `permissions` (pure) says what it asks permission for as a call of ours; `history` (pure) is
the conversation as text; `worker` is the process that speaks the protocol. Start with `harness`.
"""
