"""The gateway protocol, version 4: JSON frames over a WebSocket. Nearly all of it is pure; no server sockets here.

`frames` and `params` parse and encode, `connect` and `handshake` cover the first exchange, `auth`, `peer`, `scopes` and
`rejections` decide about it. `connection` is a client after its handshake, `rpc` the method registry and dispatch,
`events` the bus inside the gateway, `client` an asyncio client over a `websocket` or in `memory`.

Start with `frames`, then `handshake` and `rpc`.
"""
