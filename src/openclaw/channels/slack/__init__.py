"""Slack: an app over Socket Mode, or called over HTTP, and the Web API.

`wire` has its words as pure functions, `mrkdwn` its markup, `emoji` the names of emoji, `channel` the account.
"""
