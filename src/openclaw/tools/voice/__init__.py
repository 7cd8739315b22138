"""Speech: text as sound, and sound as text.

`speech` (`Speech`, `TtsTool`) reads texts aloud, `transcribe` (`Transcriber`) writes down what was said; both use a
program of this machine or an OpenAI-compatible endpoint (`remote`, loaded with its first use).

Start with `speech`.
"""
