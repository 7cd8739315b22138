"""The agent loop: ask the model, run its tool calls, repeat.

`loop` (`run`, `ModelAsker`) yields the events of a run, `tool_runner` (`ToolRunner`) runs the calls of one reply
through the gates, `arguments` checks and repairs their arguments, `repeats` detects loops and caps results,
`model_call` meters a call and ends a silent one, `settings` declares `agents`.

Start with `loop`.
"""
