"""What a call does, told from its words and from what is observed: pure decisions, and one watch on opened files.

`places` names what must not be changed unasked, `forms` knows commands that only read or build, `shell_words` reads a
command line as the shell does, `reach` tells whether it leaves the machine, `command_facts` looks at the files it
names, `intent` whether the owner asked for a message, `consent` what a person agreed to, `opens` which labelled files
were opened.
"""
