"""Channels: the chat platforms people write on (today those that plugins bring).

`manager.ChannelManager` listens on every channel; `inbound.InboundHandler` judges each message (`access`), starts a
run and sends the answer back. `pairing` keeps who asked to be let in and who was, `chunking` cuts long answers into
messages, `tools` is the agent's `message` tool. The `Channel` seam itself is in `core/channel`.

Start with `inbound`, then `access`.
"""
