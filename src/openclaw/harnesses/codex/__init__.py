"""Turns that `codex app-server` carries out, with our tools, transcript, policy and prompt files.

`harness` (`CodexHarness`) has the processes; `turn` (`CodexTurn`) carries out a turn; `native` has what Codex would do
itself judged; `server` is the process and its JSON lines; `frames` turns what it says into events; `metering` books
what it costs; `routing` says which text travels by which carrier; `binding` remembers the thread of a session;
`liveness` says how long silence is borne.

Start with `harness`.
"""
