"""The agent loop: ask the model, run its tool calls, repeat.

`loop` (`EmbeddedHarness`, `ModelCall`, `ModelAsker`) yields the events of a run, `tool_runner` (`ToolRunner`) runs the
calls of one reply through the gates, `tool_search` keeps rarely used schemas out of requests, `arguments` checks and
repairs arguments, `repeats` detects loops and caps results, `settings` declares `agents`.

Start with `loop`.
"""
