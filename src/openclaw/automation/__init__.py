"""Automation: what starts without a person. Cron jobs, heartbeats, webhooks, BOOT.md, ended background commands.

`cron/` has scheduled jobs, `heartbeat` the decisions of a heartbeat and `heartbeats.HeartbeatService` its loop,
`webhooks` turns an HTTP call into an event or a run, `service` builds the parts and holds the smaller starters.
Each of them submits a `RunRequest`, as a person's message does.

Start with `service.automation`, then `cron/service` and `heartbeats`.
"""
