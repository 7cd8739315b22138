"""The vocabulary that every other package shares, and the seams between them. No I/O, no clock, no asyncio.

Values: `messages` (a conversation), `events` (a run), `keys` (session keys), `text` (prompt text and trust labels),
`errors`, `secret`, `settings`. Seams, each a small Protocol with a fake in `openclaw.testing`: `provider` (models),
`tool`, `channel`, `embedder`, `sandbox`, `harness`, `hooks`, `plugin`, `clock`.

Start with `messages`, then `tool` and `provider`.
"""
