"""Speech: text as sound (`speech`, with the `tts` tool), and sound as text (`transcribe`)."""
