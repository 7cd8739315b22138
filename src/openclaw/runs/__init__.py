"""Runs: from a request to a recorded answer. The one road for sockets, HTTP, channels, cron, heartbeats and sub-agents.

`request.RunRequest` is what a caller submits; `inbox` writes it down, `queue` and `lanes` decide when it starts,
`worker.RunService` runs it, `turn.TurnRunner` opens the session, asks the model and records every event (`record`),
`reply` shapes the model's text for people, `projection` turns events into notices for clients. `route` picks model and
credential, `prepare`, `toolset` and `tool_settings` assemble the turn, `hooks` and `tool_hooks` let plugins take part,
`subagents` starts child runs, `stuck` and `recovery` free sessions that hang. `commands` answers slash commands;
`chat_rpc`, `record_rpc`, `rpc`, `session_tools` and `tools` are what clients and agents call.

Start with `request`, `worker` and `turn`.
"""
