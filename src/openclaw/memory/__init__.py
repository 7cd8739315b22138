"""Memory: notes in Markdown files, and a search index derived from them.

`files` finds the notes, `chunk` and `terms` split them, `sync` and `indexer` update the index (`database`, `writer`),
`rank` orders the hits, and `embedders/` makes the vectors. `MemoryIndex` (`index`) joins these for one agent;
`MemoryService` (`service`) holds one index per agent and watches the files. The agent's tools are in `tools`,
`memory.*` methods in `rpc`.

Start with `index.MemoryIndex.search`, then `rank` for the scores.
"""
