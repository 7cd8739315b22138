"""The chat in the terminal, `openclaw chat` and `openclaw tui`.

`chat` is the command and the line-by-line mode. `app.ChatApp` is the full-screen program (Textual): `composer` is the
input, `rows` the messages, `status` the status line and the session switcher, `text` makes text safe to print.
`session.ChatSession` holds the connection to the gateway, `conversation.ChatConversation` the state built from its
events; both know no screen.

Start with `session` and `conversation`, then `app`.
"""
