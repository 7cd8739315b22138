"""Slash commands: typed into any chat and answered by the gateway; no model sees them.

`catalog` lists them, `service` finds out which one a message is and answers it, `inline` finds directives inside a
message; the other modules answer commands by theme.
"""
