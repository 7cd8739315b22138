"""The command line: `openclaw <noun> <verb>`.

`main` maps each noun to a module that is imported only when it is used. A module parses arguments with click, calls a
gateway (`client`: the running one, or one in this process) or works on files (`home`), and prints (`render`: results on
standard output, everything else on standard error). `screen` shows a run at the terminal, `markdown` parses models'
text safely. `tui/` is the chat in the terminal.

Start with `main`, then the module of the noun.
"""
