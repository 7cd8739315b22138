"""Compaction: replaces the older part of a conversation by a summary when it no longer fits the model.

`plan` decides when and where to cut, and prunes old tool results (pure); `summary` has the prompts and checks of
summaries (pure); `summarise` calls the model, and runs the memory flush before; `manager.CompactionManager` runs all of
it for a turn.

Start with `manager`, then `plan`.
"""
