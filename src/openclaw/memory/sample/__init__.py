"""Sample notes and questions (data files) for `openclaw.memory.evaluate`.

`questions.jsonl` names for every question the note that answers it.
"""
