"""Cron: jobs that run at a time, at an interval, by the calendar, or when something they watch changes.

`jobs.CronJob` is the job and what a result does to it, `schedule` computes the next slot, `store.CronStore` keeps jobs
and taken slots in the database, `service.Scheduler` waits, runs and delivers, `watch` and `probes` are conditions
checked before a model is asked, `tool` is the agent's `cron` tool and `rpc` the clients' methods.

Start with `jobs` and `schedule` (pure), then `service`.
"""
