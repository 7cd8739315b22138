"""Telegram through the Bot API.

`wire` turns updates into events and messages into requests; `channel` polls and sends; `settings` has its keys under
`channels.telegram`.
"""
