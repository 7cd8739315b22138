"""Matrix through its client-server API.

`wire` turns events of a room into ours and messages into requests; `channel` syncs and sends; `settings` has its keys
under `channels.matrix`.
"""
