"""Signal: an account that signal-cli holds, over the HTTP interface of its daemon.

`wire` has its words as pure functions, `daemon` starts signal-cli, `channel` is the account.
"""
