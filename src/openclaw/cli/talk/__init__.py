"""One message from a command line, and what a person at the terminal sees of the run.

`agent` is the command, `message` has the connection that lasts as long as the run and sends the message,
`screen` shows the answer as it comes and asks about commands, `markdown` parses what models write.
"""
