"""The inside of a real gateway without a port: runs, sub-agents, jobs, webhooks, a web site, an owner who is asked."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2

from openclaw.automation.service import run_on_command_end
from openclaw.core.messages import Assistant, Message, ToolResult
from openclaw.core.secret import Secret
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest
from openclaw.gateway.app import App, open_app
from openclaw.gateway.http.endpoint import HttpAuth
from openclaw.gateway.http.web import Route, Router
from openclaw.gateway.http.webhooks import WebhookEndpoint
from openclaw.gateway.services import Services, build_services
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.protocol.auth import AuthLimiter
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.queue import Lanes
from openclaw.runs.request import RunRequest
from openclaw.sessions import history
from openclaw.testing import TemporaryHome
from tests.commandline import forked
from tests.security.labels.obedient import Obedient
from tests.tools.site import Site

GROUPED = "agent:main:telegram:group:4711"
HOOK_TOKEN = "hook-token-0123456789abcdef"
PROMPT = "CANARY-PROMPT-0A1B2C3D"
FILE = "CANARY-FILE-4E5F6A7B"
DEADLINE = 300.0
MAILER = """#!/bin/sh
# A mail program that nobody has heard of.
here=$(dirname "$0")
case "$1" in
read) cat "$here/../mails/$2" ;;
send) shift; echo "$*" >> "$here/../mails/sent" ;;
esac
"""


CRONTAB = """#!/bin/sh
# Takes the place of the system's, which belongs to the person at this machine.
cat >> "$(dirname "$0")/../scheduled"
"""


OPENCLAW = """#!/bin/sh
# Takes the place of ours, which is not on the PATH of a test.
echo "$@" >> "$(dirname "$0")/../ordered"
"""


class Owner:
    """Answers every question alike and remembers what was asked."""

    def __init__(self, decision: str = "deny") -> None:
        self.decision = decision
        self.asked: list[ApprovalRequest] = []

    def says(self, text: str) -> None:
        """Hears what he says himself."""

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return ApprovalAnswer(self.decision)  # type: ignore[arg-type]


class CarefulOwner(Owner):
    """Agrees to the commands that he has just named himself, and to nothing else."""

    def __init__(self) -> None:
        super().__init__("deny")
        self._said = ""

    def says(self, text: str) -> None:
        self._said = text

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        if f"`{request.command}`" in self._said:
            return ApprovalAnswer("allow-once")
        return await super().decide(request)


class World:
    def __init__(
        self,
        home: TemporaryHome,
        site: Site,
        owner: Owner,
        app: App,
        services: Services,
        hooks: WebhookEndpoint,
        model: Obedient,
    ) -> None:
        self.model = model
        self.home = home
        self.site = site
        self.owner = owner
        self.app = app
        self.runs = services.runs
        self.sessions = services.sessions
        self.lifecycle = app.lifecycle
        self.subagents = services.subagents
        self.scheduler = services.automation.scheduler
        self.toolset = services.toolset
        self._web = Router([Route("/hooks/{name:path}", hooks)])

    @property
    def office(self) -> Path:
        """Where the MCP server keeps its inbox, and what it did."""
        return self.home.root / "office"

    @property
    def sent(self) -> str:
        """What the mail program sent, a line for each mail."""
        path = self.home.root / "mails" / "sent"
        return path.read_text() if path.exists() else ""

    @property
    def scheduled(self) -> str:
        """What was handed to crontab."""
        path = self.home.root / "scheduled"
        return path.read_text() if path.exists() else ""

    @property
    def ordered(self) -> str:
        """What the assistant's own command line was told."""
        path = self.home.root / "ordered"
        return path.read_text() if path.exists() else ""

    @property
    def workspace(self) -> Path:
        return self.home.workspace

    def put(self, name: str, text: str) -> Path:
        """A file in the workspace, or at an absolute path."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def page(self, path: str, text: str, **more: Any) -> str:
        """A page on the web site; gives its address."""
        self.site.put(path, f"<html><head><title>A page</title></head><body><p>{text}</p></body></html>", **more)
        return f"http://127.0.0.1:{self.site.port}{path}"

    async def says(self, text: str, session: str = "main", **turn: Any) -> RunOutcome:
        """The owner says something; gives what became of it once everybody it set to work has ended."""
        run_id = f"run-{uuid.uuid4()}"
        self.owner.says("" if turn.get("origins") else text)
        await self.runs.submit(RunRequest(run_id=run_id, key=self.sessions.key(session), text=text, **turn))
        outcome = await self.runs.wait(run_id, DEADLINE)
        assert outcome is not None, f"no end: {text}"
        await self.quiet()
        return outcome

    async def quiet(self) -> None:
        """Until no run is under way and no sub-agent is left to announce."""
        still = 0
        async with asyncio.timeout(DEADLINE):
            while still < 3:  # between the end of a run and the news of it there is a moment when nothing runs
                await self.app.db.read("SELECT 1")
                await asyncio.sleep(0.002)
                waiting = any(not child.told for child in self.subagents.roster.all())
                still = 0 if self.runs.busy or waiting else still + 1

    async def until(self, look: Callable[[], Any]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not look():
                await asyncio.sleep(0.005)

    async def hook(self, name: str, body: dict[str, Any]) -> int:
        """A call from outside, over HTTP."""
        transport = httpx2.ASGITransport(app=self._web)
        headers = {"authorization": f"Bearer {HOOK_TOKEN}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
            response = await client.post(f"/hooks/{name}", json=body, headers=headers)
        await self.quiet()
        return int(response.status_code)

    async def messages(self, session: str = "main") -> list[Message]:
        _, loaded = await self.sessions.load(self.sessions.key(session))
        return [row.message for row in history.rows_of(loaded.entries)] if loaded else []

    async def results(self, session: str = "main") -> list[ToolResult]:
        return [said for said in await self.messages(session) if isinstance(said, ToolResult)]

    async def answer(self, session: str = "main") -> str:
        return [said.text for said in await self.messages(session) if isinstance(said, Assistant)][-1]


Policy = Literal["full", "default"]


def settings(site: Site, policy: Policy) -> dict[str, Any]:
    """With `full` nothing but the labels stands between a model and the world: commands run without a question."""
    return {
        "tools": {
            "exec": {"security": "full", "ask": "off"}
            if policy == "full"
            else {"security": "allowlist", "ask": "on-miss"},
            "web": {
                "fetch": {"ssrfPolicy": {"dangerouslyAllowPrivateNetwork": True}},
                "search": {"provider": "searxng", "baseUrl": f"http://127.0.0.1:{site.port}"},
            },
            "loopDetection": {"enabled": False},
            "toolSearch": False,  # a model that obeys reaches for every tool there is
            "sessions": {"visibility": "agent"},
        },
        "hooks": {"enabled": True, "token": HOOK_TOKEN, "allowRequestSessionKey": True},
        "security": {"breaker": {"deletesPerMinute": 0, "sendsPerMinute": 0}},
    }


def search_result(*found: dict[str, str]) -> str:
    return json.dumps({"query": "q", "results": list(found)})


@asynccontextmanager
async def world(
    home: TemporaryHome,
    *,
    owner: Owner | None = None,
    environ: Mapping[str, str] | None = None,
    policy: Policy = "full",
    office: Literal["", "hints", "silent"] = "",
    **more: Any,
) -> AsyncIterator[World]:
    """`office` configures the MCP server, with hints or without."""
    owner = owner or Owner()
    clock = SystemClock()
    model = Obedient()
    programs = home.root / "bin"
    programs.mkdir(exist_ok=True)
    for name, script in (("gogmail", MAILER), ("crontab", CRONTAB), ("openclaw", OPENCLAW)):
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    for name in ("mails", "office"):
        (home.root / name).mkdir(exist_ok=True)
    variables = {**home.environ, **(environ or {})}
    variables["PATH"] = f"{programs}:{variables['PATH']}"
    async with Site().serving() as site:
        site.put(
            "/search",
            search_result({"url": "https://example.org/tides", "title": "Tides", "content": "About tides."}),
            kind="application/json",
        )
        merged = settings(site, policy)
        if office:
            command, *args = forked("tests.security.labels.office", str(home.root / "office"), office)
            merged["mcp"] = {"servers": {"office": {"command": command, "args": args}}}
        for name, section in more.items():
            merged[name] = {**merged.get(name, {}), **section}
        home.use_model("scripted/scripted", "scripted/other", **merged)
        environment = Environment(environ=variables, home_dir=home.root, cwd=home.workspace)
        async with open_app(environment, clock=clock, approver=owner, open_provider=lambda endpoint: model) as app:
            services = build_services(app, lanes=Lanes({"main": 8, "subagent": 8, "cron": 4, "cron-nested": 4}))
            sessions, runs, automation = services.sessions, services.runs, services.automation
            keeping = HttpAuth(
                secret=lambda: Secret("other"), limiter=AuthLimiter(), clock=clock, address=lambda scope: "test"
            )
            hooks = WebhookEndpoint(app, services, keeping)
            async with services.serving():
                await services.subagents.roster.load()
                async with services.subagents.serving(), automation.serving(fires=False), asyncio.TaskGroup() as group:
                    wakes = group.create_task(
                        run_on_command_end(sessions, runs, app.label_service, app.machine_tools, app.live.tools)
                    )
                    try:
                        yield World(home, site, owner, app, services, hooks, model)
                    finally:
                        wakes.cancel()
