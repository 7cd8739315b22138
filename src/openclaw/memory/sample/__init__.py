"""Sample notes, and questions with the note that answers each (data files), for `openclaw.memory.evaluate`."""
