"""The sections of the prompt: one function per section, from `PromptFacts` to a `Section` or None.

`stable` and `tools` are above the cache boundary and must not depend on volatile facts; `volatile` is below it.
`openclaw.prompt.build` lists them in order: start there.
"""
