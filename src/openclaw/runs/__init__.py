"""Runs: from a request to a recorded answer. The one road for sockets, HTTP, channels, cron, heartbeats and sub-agents.

`request.RunRequest` is what a caller submits; `inbox` writes it down, `queue` decides when it starts, `worker`
(`RunService`) runs it, `turn.TurnRunner` opens the session, asks the model and records every event (`record`),
`reply` shapes the text for people, `projection` turns events into notices for clients. `route` picks model and
credential, `prepare` and `toolset` assemble the turn, `hooks` and `call_hooks` let plugins take part, `subagents`
starts child runs, `recovery` frees sessions that hang. `commands` answers slash commands; `rpc`, `session_tools` and
`tools` are what clients and agents call.

Start with `request`, `worker` and `turn`.
"""
