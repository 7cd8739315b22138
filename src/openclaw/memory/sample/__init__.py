"""Sample notes, and questions with the note that answers each.

Data files only: `openclaw.memory.evaluate` measures with them how well the search finds notes.
"""
