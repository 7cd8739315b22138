"""IRC: one connection to a server, in channels and private messages.

`wire` has its lines as pure functions, `channel` the connection.
"""
