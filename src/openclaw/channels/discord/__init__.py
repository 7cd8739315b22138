"""Discord: a bot over the gateway (websocket) and the REST API.

`wire` has its words as pure functions, `gateway` the connection that resumes, `channel` the account.
"""
