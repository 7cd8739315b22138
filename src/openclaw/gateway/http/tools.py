"""HTTP routes of plugins, and `/tools/invoke`: one tool call without a model, under the same policy and approvals."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from openclaw.agent.arguments import ArgumentsRejected, prepare_arguments
from openclaw.agent.tool_runner import ToolRunner
from openclaw.core.errors import NotFound, OpenClawError
from openclaw.core.messages import ToolResult
from openclaw.core.plugin import HttpRequest, HttpRoute
from openclaw.core.tool import ToolSpec
from openclaw.gateway.http import problems
from openclaw.gateway.http.endpoint import HttpAuth, HttpCall
from openclaw.gateway.http.problems import NO_RETRY, HttpProblem
from openclaw.gateway.http.web import BaseRoute, Match, Receive, Request, Scope, Send, WebResponse
from openclaw.gateway.server import read_body
from openclaw.process.tasks import call_function
from openclaw.runs.toolset import DENIED, find_tool, invoke_tool

if TYPE_CHECKING:
    from openclaw.gateway.http.requests import HttpBackend

log = logging.getLogger("openclaw.gateway.http")

# Routes of plugins.

PLUGIN_BODY_BYTES = 5_000_000
PRIVATE = frozenset({"authorization", "cookie", "x-openclaw-token", "proxy-authorization"})
"""Credentials for the gateway, which no plugin sees."""
OURS = frozenset({"content-length", "transfer-encoding", "connection", "content-type", "set-cookie", "server", "date"})


class PluginRoutes(BaseRoute):
    """Matches the paths that running plugins registered."""

    def __init__(self, find: Callable[[str], HttpRoute | None], auth: HttpAuth) -> None:
        self._find = find
        self._auth = auth

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = self._find(scope["path"]) if scope["type"] == "http" else None
        return (Match.NONE, {}) if found is None else (Match.FULL, {"plugin_route": found})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route: HttpRoute = scope["plugin_route"]
        request = Request(scope, receive)
        try:
            if route.auth == "gateway":
                self._auth.check(request, route.scope)
            answer = await call_function(route.run, await _asked(request, route))
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in OURS}
            response = WebResponse(
                answer.body,
                answer.status,
                {**headers, "x-content-type-options": "nosniff", "content-security-policy": "sandbox"},
                answer.content_type,
            )
        except OpenClawError as error:
            response = _refusal(problems.from_error(error))
        # A bug ends with its connection: this client is told, the others are not affected.
        except Exception:
            log.exception("%s failed", scope["path"])
            response = _refusal(HttpProblem(500, "a plugin failed to answer; the log has the details", problems.FAILED))
        await response(scope, receive, send)


async def _asked(request: Request, route: HttpRoute) -> HttpRequest:
    # A plugin that authenticates requests itself sees their headers, without the gateway's own credentials.
    hidden = PRIVATE if route.auth == "gateway" else PRIVATE - {"authorization"}
    return HttpRequest(
        method=request.method,
        path=request.path,
        query=request.query,
        headers={name: value for name, value in request.headers.items() if name not in hidden},
        body=await read_body(request, PLUGIN_BODY_BYTES),
    )


def _refusal(problem: HttpProblem) -> WebResponse:
    return WebResponse(
        msgspec.json.encode(problems.body(problem)),
        problem.status,
        {**problem.headers, "x-content-type-options": "nosniff"},
        "application/json; charset=utf-8",
    )


# `/tools/invoke`.

BODY_BYTES = 2_000_000
REMEMBERED = 1_000
REMEMBERED_SECONDS = 300.0


class InvokeRequest(Struct, kw_only=True, rename="camel"):
    tool: str | None = None
    name: str | None = None
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    action: str | None = None
    session_key: str | None = None
    agent_id: str | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    dry_run: bool = False


class _Once(Struct):
    """A call with an idempotency key: the request, and its answer once there is one."""

    asked: bytes
    at: float
    answer: "asyncio.Future[ToolResult]"


class ToolInvocation:
    """Handles an authorised request."""

    def __init__(self, backend: "HttpBackend") -> None:
        self._backend = backend
        self._once: OrderedDict[str, _Once] = OrderedDict()

    async def __call__(self, call: HttpCall) -> None:
        request = call.read(InvokeRequest)
        wanted = (request.tool or request.name or "").strip()
        if not wanted:
            raise HttpProblem(400, "tool is missing: name the tool to call", "invalid_request")
        key = self._backend.key_of(request.session_key, request.agent_id)
        box = self._backend.tool_runner(key, DENIED)
        try:
            spec = find_tool(wanted, box)
        except NotFound as error:
            raise HttpProblem(404, error.message, "not_found") from error
        args = request.args
        if request.action and "action" in spec.parameters.get("properties", {}):
            args = {"action": request.action, **args}
        if request.dry_run:
            prepared = prepare_arguments(spec.name, spec.parameters, spec.aliases, args, spec.absent)
            if isinstance(prepared, ArgumentsRejected):
                raise HttpProblem(400, prepared.text, "tool_error")
            shown: dict[str, Any] = {"dryRun": True, "tool": spec.name, "args": prepared.arguments}
            await call.answer({"ok": True, "result": shown})
            return
        result = await self._result(box, request, spec, args)
        if result.is_error:
            raise HttpProblem(400, result.text, "tool_error", headers=NO_RETRY)
        shown = {"content": msgspec.to_builtins(result.content), "details": result.details}
        await call.answer({"ok": True, "result": {name: value for name, value in shown.items() if value is not None}})

    async def _result(
        self, box: ToolRunner, request: InvokeRequest, spec: ToolSpec, args: dict[str, Any]
    ) -> ToolResult:
        """The result; the first one again when the key was used before."""
        if request.idempotency_key is None:
            return await invoke_tool(box, spec, args)
        self._forget_old()
        asked = msgspec.json.encode(structs.replace(request, idempotency_key=None), order="deterministic")
        earlier = self._once.get(request.idempotency_key)
        if earlier is not None:
            if earlier.asked != asked:
                raise HttpProblem(409, "this idempotencyKey was used for another call: use a new one", "conflict")
            return await asyncio.shield(earlier.answer)
        answer: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._once[request.idempotency_key] = _Once(asked=asked, at=self._backend.clock.now(), answer=answer)
        try:
            answer.set_result(await invoke_tool(box, spec, args))
        finally:
            if not answer.done():  # cancelled half way: a repeated call starts it again
                answer.cancel()
                self._once.pop(request.idempotency_key, None)
        return answer.result()

    def _forget_old(self) -> None:
        before = self._backend.clock.now() - REMEMBERED_SECONDS
        while self._once:
            key, oldest = next(iter(self._once.items()))
            if not oldest.answer.done() or (oldest.at >= before and len(self._once) < REMEMBERED):
                return
            del self._once[key]
