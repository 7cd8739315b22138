"""A Codex app-server from a script: python scripted.py DIRECTORY app-server. What it is told decides what it does.

Its threads are in DIRECTORY, and outlive it. The frames are of the shape that the real one sends.
"""

import json
import os
import sys
import threading
import time
import uuid
from pathlib import Path
from queue import Queue
from typing import Any

place = Path(sys.argv[1])
kept = place / "threads.json"
inbox: "Queue[dict[str, Any]]" = Queue()
answers: "Queue[dict[str, Any]]" = Queue()
threads: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
stopped = threading.Event()
writing = threading.Lock()


def log(frame: dict[str, Any]) -> None:
    """What was said both ways, for who wants to look at it."""
    with writing, (place / "frames.jsonl").open("a") as file:
        file.write(json.dumps(frame) + "\n")


def say(frame: dict[str, Any]) -> None:
    log(frame)
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def keep(thread: str, *said: str) -> None:
    known = threads.setdefault(thread, {"said": [], "total": 0})
    known["said"] += said
    kept.write_text(json.dumps(threads))


class Turn:
    def __init__(self, thread: str, text: str) -> None:
        self.thread, self.text, self.id = thread, text, str(uuid.uuid4())
        self.before = "\n".join(threads[thread]["said"])
        keep(thread, text)

    def tell(self, method: str, **params: Any) -> None:
        say({"method": method, "params": {"threadId": self.thread, "turnId": self.id, **params}})

    def item(self, kind: str, **fields: Any) -> None:
        item = {"id": str(uuid.uuid4()), "type": kind}
        self.tell("item/started", item={**item, **{key: fields[key] for key in fields if key == "agentThreadId"}})
        if kind == "agentMessage":
            self.tell("item/agentMessage/delta", itemId=item["id"], delta=fields["text"])
        self.tell("item/completed", item={**item, **fields})

    def call(self, tool: str, **arguments: Any) -> bool:
        number, call_id = 1000 + len(threads), str(uuid.uuid4())
        params = {"threadId": self.thread, "turnId": self.id, "callId": call_id, "namespace": "openclaw"}
        say({"id": number, "method": "item/tool/call", "params": {**params, "tool": tool, "arguments": arguments}})
        return bool(answers.get()["result"]["success"])

    def run(self) -> None:
        self.tell("turn/started", turn={"id": self.id, "status": "inProgress"})
        status = "completed"
        if "crash" in self.text:
            self.item("agentMessage", text="Working. ")
            os._exit(7)
        elif "permit" in self.text:
            allowed = self.call("exec", command="sh -c 'echo > made.txt'")
            self.item("agentMessage", text="permitted" if allowed else "refused")
        elif "act" in self.text:
            self.call("ls")
            self.item("agentMessage", text="acted")
        elif "delegate" in self.text:
            child = str(uuid.uuid4())
            self.item("subAgentActivity", agentThreadId=child)
            spent = {"inputTokens": 300, "outputTokens": 40, "totalTokens": 340, "cachedInputTokens": 0}
            usage = {"total": spent, "last": spent}
            say({"method": "thread/tokenUsage/updated", "params": {"threadId": child, "tokenUsage": usage}})
            self.item("agentMessage", text="delegated")
        elif "recall" in self.text:
            self.item("agentMessage", text=f"Before: {self.before}")
        elif "wait" in self.text:
            self.item("agentMessage", text="Waiting. ")
            while not (place / "go").exists() and not stopped.is_set():
                time.sleep(0.02)
            status = "interrupted" if stopped.is_set() else status
            if status == "completed":
                self.item("agentMessage", text="Done waiting.")
        else:
            self.item("agentMessage", text="spoken")
        known = threads[self.thread]
        known["total"] += 1
        used = {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120, "cachedInputTokens": 0}
        total = {name: count * known["total"] for name, count in used.items()}
        self.tell("thread/tokenUsage/updated", tokenUsage={"total": total, "last": used})
        keep(self.thread)
        self.tell("turn/completed", turn={"id": self.id, "status": status, "error": None, "items": []})


def answer(frame: dict[str, Any]) -> dict[str, Any]:
    params = frame.get("params") or {}
    thread = params.get("threadId", "")
    match frame["method"]:
        case "initialize":
            version = (place / "version").read_text() if (place / "version").exists() else "0.166.0"
            return {"userAgent": f"openclaw/{version} (scripted)"}
        case "thread/start":
            thread = str(uuid.uuid4())
            keep(thread)
            return {"thread": {"id": thread}}
        case "thread/inject_items":
            parts = [part["text"] for item in params["items"] for part in item.get("content", ())]
            keep(thread, *parts)
        case "turn/interrupt":
            stopped.set()
        case "turn/start":
            stopped.clear()
            turn = Turn(thread, params["input"][-1]["text"])  # files of the workspace may come before it
            threading.Thread(target=later, args=(turn,), daemon=True).start()
            return {"turn": {"id": turn.id}}
    return {}


def later(turn: Turn) -> None:
    time.sleep(0.02)
    turn.run()


for line in sys.stdin:
    said = json.loads(line)
    log(said)
    if "method" not in said:
        answers.put(said)
    elif "id" not in said:
        continue
    elif said["method"] == "thread/resume" and said["params"]["threadId"] not in threads:
        say({"id": said["id"], "error": {"code": -32600, "message": "no rollout found"}})
    elif said["method"] == "turn/steer":
        say({"id": said["id"], "error": {"code": -32600, "message": "no active turn to steer"}})
    else:
        say({"id": said["id"], "result": answer(said)})
