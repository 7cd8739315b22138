"""The gateway's RPC methods.

`methods` is the table of all of them, those of other packages included; `system` has the gateway's own; `health` is
what `health` and every connected client are told.
"""
