"""Sessions: conversations stored as transcripts, and the list of them.

`transcript` defines the entries and builds the context a model sees; `files` reads and appends them under a write lock;
`index.SessionIndex` lists sessions in the database; `lifecycle` creates, resets, rewinds and deletes; `compaction/`
keeps a conversation within its model's window. `history` serves pages to clients, `reply_parse` and `reply_text` shape
what is delivered, `system_events` queues lines for the next turn.

Start with `transcript` (the invariant is in its docstring), then `files`.
"""
