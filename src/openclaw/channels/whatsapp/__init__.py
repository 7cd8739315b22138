"""WhatsApp over Meta's Cloud API: Meta calls us with what people write, and we call Meta with the answers.

`wire` has its words as pure functions, `channel` the number.
"""
