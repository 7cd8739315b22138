"""What a tool call costs beyond its work: read, exec against a bare subprocess, web_fetch, policy, the sandbox.

python benchmarks/tools.py
"""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from openclaw.core.sandbox import BoundSandbox, Mount, SandboxSpec
from openclaw.core.tool import Tool, ToolContext
from openclaw.process.tasks import SystemClock
from openclaw.security.exec_policy import ExecGrant, decide
from openclaw.security.sandboxes.bubblewrap import Bubblewrap
from openclaw.security.settings import AgentToolSettings
from openclaw.security.tool_policy import GROUPS, ToolRequest, apply_layers, build_layers
from openclaw.tools.build import ToolState, build_tools, build_web
from openclaw.tools.settings import FetchSettings, SsrfSettings, ToolsSettings, WebSettings

CALLS = 200


async def timed(work: Callable[[], Awaitable[object]], count: int = CALLS) -> float:
    """The median of `count` calls, in milliseconds."""
    spent = []
    for _ in range(count):
        began = time.perf_counter()
        await work()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1000


async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    body = b"<html><body><p>" + b"words " * 500 + b"</p></body></html>"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    writer.close()


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        workspace = Path(place, "work")
        workspace.mkdir()
        (workspace / "a.txt").write_text("line\n" * 100)
        context = ToolContext(call_id="c", workspace=workspace, session_key="agent:main:main")
        standing = ToolState(SystemClock())
        try:
            await on_the_machine(context, standing)
            await from_the_web(context, standing)
            decided()
            await in_a_box(context, standing, Path(place, "box"))
        finally:
            await standing.close()


def named(tools: list[Tool]) -> dict[str, Tool]:
    return {tool.spec.name: tool for tool in tools}


async def on_the_machine(context: ToolContext, standing: ToolState) -> None:
    env = {"PATH": os.environ["PATH"]}
    tools = named(build_tools(shell="/bin/sh", env=env, background=standing.background))
    print(f"read                 {await timed(lambda: tools['read'].call({'path': 'a.txt'}, context)):8.2f} ms")

    async def bare() -> None:
        subprocess.run(["/bin/sh", "-c", "true"], env=env, capture_output=True, check=True)  # noqa: ASYNC221

    alone = await timed(bare)
    ours = await timed(lambda: tools["exec"].call({"command": "true"}, context))
    print(f"subprocess, bare     {alone:8.2f} ms")
    print(f"exec                 {ours:8.2f} ms   {ours / alone:.1f} times a bare subprocess")


async def from_the_web(context: ToolContext, standing: ToolState) -> None:
    server = await asyncio.start_server(page, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    private = SsrfSettings(dangerously_allow_private_network=True)
    settings = WebSettings(fetch=FetchSettings(ssrf_policy=private, cache_ttl_minutes=0))
    fetch = named(build_web(standing, settings, {}))["web_fetch"]
    count = iter(range(CALLS * 2))
    spent = await timed(lambda: fetch.call({"url": f"http://127.0.0.1:{port}/{next(count)}"}, context), 50)
    print(f"web_fetch, loopback  {spent:8.2f} ms")
    server.close()


def decided() -> None:
    grants = [ExecGrant(f"/usr/bin/program{number}") for number in range(100)]
    names = sorted({name for group in GROUPS.values() for name in group})
    command = "git add . && git commit -m 'a message' | head -5"

    def each(work: Callable[[], object], count: int = 2000) -> float:
        began = time.perf_counter()
        for _ in range(count):
            work()
        return (time.perf_counter() - began) / count * 1e6

    spent = each(
        lambda: decide(command, "/w", "allowlist", "on-miss", grants, lambda word: f"/usr/bin/{word}", ("head",))
    )
    print(f"policy: a command    {spent:8.1f} µs   100 programs on the list")
    rules = build_layers(ToolsSettings(deny=("cron",)), AgentToolSettings(), ToolRequest(boxed=True))
    print(f"policy: {len(names)} tools     {each(lambda: apply_layers(names, rules)):8.1f} µs   {len(rules)} layers")


async def in_a_box(context: ToolContext, standing: ToolState, root: Path) -> None:
    engine = Bubblewrap(os.environ)
    box = SandboxSpec(name="bench", root=str(root), mounts=(Mount(str(context.workspace), "/workspace", True),))
    if why := await engine.problem(box):
        print(f"sandbox              not measured: {why}")
        return
    tools = named(build_tools(shell="/bin/sh", env={}, boxed=BoundSandbox(engine, box), workers=standing.workers))
    began = time.perf_counter()
    await tools["read"].call({"path": "a.txt"}, context)
    print(f"sandbox: first read  {(time.perf_counter() - began) * 1000:8.2f} ms   starts the file tools inside")
    print(f"sandbox: read        {await timed(lambda: tools['read'].call({'path': 'a.txt'}, context)):8.2f} ms")
    spent = await timed(lambda: tools["exec"].call({"command": "true"}, context), 50)
    print(f"sandbox: exec        {spent:8.2f} ms   a box for each command")


if __name__ == "__main__":
    asyncio.run(main())
