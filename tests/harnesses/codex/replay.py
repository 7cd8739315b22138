"""Stands in for `codex app-server`: replays frames recorded from the real one.

`python replay.py FRAMES SCENARIO LOG [crash:METHOD | silent:METHOD]` waits where the recording waits for its client,
and says the rest. What it hears goes to LOG. After METHOD it dies, or says nothing more until it is interrupted.
"""

import json
import sys
from pathlib import Path
from typing import Any

RESUMES = {"thread/start": "thread/resume"}
"""A thread that goes on is answered like one that begins."""


def main(frames: str, scenario: str, log: str, after: str = "") -> None:
    rows = [json.loads(line) for line in Path(frames).read_text().splitlines()]
    rows = [row for row in rows if row["scenario"] == scenario]
    heard = Path(log)
    how, _, method = after.partition(":")
    thread = turn = ""
    ids: dict[int, int] = {}

    def say(frame: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(frame) + "\n")
        sys.stdout.flush()

    def listen() -> dict[str, Any]:
        line = sys.stdin.readline()
        if not line:
            raise SystemExit
        said: dict[str, Any] = json.loads(line)
        with heard.open("a") as file:
            file.write(line)
        return said

    def interrupted() -> None:
        while True:
            said = listen()
            if said.get("method") == "turn/interrupt":
                say({"id": said["id"], "result": {}})
                ended: dict[str, Any] = {"id": turn, "status": "interrupted", "error": None, "items": []}
                say({"method": "turn/completed", "params": {"threadId": thread, "turn": ended}})
            elif "id" in said and "method" in said:
                say({"id": said["id"], "error": {"code": -32600, "message": "silent"}})

    for row in rows:
        frame = row["frame"]
        if row["from"] == "client":
            said = listen()
            while said.get("method") not in (frame.get("method"), RESUMES.get(frame.get("method", ""), "")):
                if "method" in said and "id" in said:
                    say({"id": said["id"], "result": {}})
                said = listen()
            if "method" in frame and "id" in frame:
                ids[frame["id"]] = said["id"]
            continue
        if "method" not in frame:
            frame = {**frame, "id": ids[frame["id"]]}
            result = frame.get("result") or {}
            thread = result.get("thread", {}).get("id", thread)
            turn = result.get("turn", {}).get("id", turn)
        say(frame)
        if method and frame.get("method") == method:
            if how == "crash":
                raise SystemExit(9)
            interrupted()
    while True:
        said = listen()
        if said.get("method") == "turn/start":
            say({"id": said["id"], "error": {"code": -32600, "message": "the recording is over"}})
        elif "method" in said and "id" in said:
            say({"id": said["id"], "result": {}})


if __name__ == "__main__":
    main(*sys.argv[1:])
