"""Turns that `codex app-server` carries out, with our tools, transcript, policy and prompt files.

`harness` (`CodexHarness`, `CodexTurn`) carries out a turn; `server` is the process and its JSON lines; `frames` turns
what it says into events; `routing` says which text travels by which carrier; `binding` remembers the thread of a
session; `liveness` says how long silence is borne.

Start with `harness`.
"""
