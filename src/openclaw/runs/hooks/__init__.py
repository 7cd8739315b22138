"""Where plugins and HOOK.md handlers take part in a run.

`runs` has the points of a run as a whole and `RunHooks`, which the others hang on; `messages` the points of messages
that come in and go out, `calls` those of model and tool calls and of sub-agents.
"""
