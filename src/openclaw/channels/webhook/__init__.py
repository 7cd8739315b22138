"""A signed webhook, in and out: any program that can send and take HTTP calls is a channel.

Calls are signed as Standard Webhooks are. `wire` has the words as pure functions, `channel` the account.
"""
