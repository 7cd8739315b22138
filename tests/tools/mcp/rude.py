"""A program that is no good MCP server: python rude.py MANNER."""

import json
import subprocess
import sys
import time

manner = sys.argv[1]
if manner == "silent":
    time.sleep(3600)
if manner == "gone":
    print("cannot start: no licence", file=sys.stderr, flush=True)
    sys.exit(4)
if manner == "endless":  # one line without an end
    while True:
        sys.stdout.write("x" * 1_000_000)
if manner == "family":  # leaves a child behind that holds on to its output
    subprocess.Popen(["sleep", "3600"])

tools = [
    {"name": "good", "description": "d", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    {"name": "bad schema", "inputSchema": {"type": "object", "properties": {"n": {"type": "nonsense"}}}},
]
for line in sys.stdin:
    if manner == "noise":
        print("this is not JSON", flush=True)
        print("[1, 2", flush=True)
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if manner == "storm":
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n"
        sys.stdout.write(note * 300)
    answers = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "rude", "version": "1"},
        },
        "tools/list": {"tools": tools},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }
    if asked["method"] in answers:
        reply = {"result": answers[asked["method"]]}
    else:
        reply = {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}), flush=True)
