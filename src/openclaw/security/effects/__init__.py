"""What a call does, told from its words and from what is observed: pure decisions, and one watch on opened files.

`places` names what must not be changed unasked, `forms` knows commands that only read or build, `reach` whether a
command leaves the machine, `intent` whether the owner asked for a message, `opens` which labelled files were opened.
"""
