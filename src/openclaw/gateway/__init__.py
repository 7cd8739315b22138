"""The gateway: the long-lived process every client talks to, and what it serves.

`daemon.run` holds the lock, the log and the port, and restarts or reloads; `serve` and `app` build every part in
dependency order. `server` is the web server, `connections` the WebSocket clients and the fan-out of
events, `http/` the HTTP endpoints and the web page, `rpc` the methods about the gateway itself, `acp_server` and
`mcp_server` serve editors and other programs. `exposure` decides where it listens and who gets in, `process`,
`service` and `status` are the gateway seen from outside, `doctor` finds and repairs problems.

Start with `daemon`, then `app`.
"""
