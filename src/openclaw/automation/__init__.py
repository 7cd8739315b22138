"""Automation: what starts without a person. Cron jobs, heartbeats, webhooks, BOOT.md, ended background commands.

`cron/` has scheduled jobs, `heartbeat` the decisions of a heartbeat and `heartbeat_service` its loop, `webhooks` turns
an HTTP call into an event or a run, `context` names the services they work with, `service` builds the parts and holds
the smaller starters. Each of them submits a `RunRequest`, as a person's message does.

Start with `service.build_automation`, then `cron/service` and `heartbeat_service`.
"""
