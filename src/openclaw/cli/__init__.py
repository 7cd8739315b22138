"""The command line: `openclaw <noun> <verb>`.

`main` maps each noun to a module that is imported only when it is used. A module parses arguments with click, calls the
running gateway (`client`) or works on files, and prints (`render`: results on standard output, everything else on
standard error). `screen` shows a turn that runs in this process, `markdown` parses models' text safely. `tui/` is the
chat in the terminal.

Start with `main`, then the module of the noun.
"""
