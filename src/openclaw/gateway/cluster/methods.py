"""RPC methods in a cluster: a request about an agent goes to the node that holds it; nodes call each other."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from openclaw.core.channel import ChannelWebhook, WebhookEntry
from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.core.keys import parse_session_key
from openclaw.gateway.cluster.approvals import ClusterApprovals
from openclaw.gateway.cluster.member import ClusterMember
from openclaw.gateway.cluster.peers import PeerLinks
from openclaw.gateway.cluster.relay import EVENTS, EventRelay
from openclaw.gateway.cluster.runs import ClusterRuns
from openclaw.gateway.cluster.setups import told_differences
from openclaw.protocol.connect_request import CallFailed, ConnectionLost
from openclaw.protocol.frames import ErrorShape, RequestFrame, encode
from openclaw.protocol.params import NonEmpty, NoParams, Params
from openclaw.protocol.rpc import Caller, FindsMethods, MethodFailed, RpcMethod, dispatch
from openclaw.protocol.scopes import ADMIN, PEER, READ
from openclaw.runs.subagents import SubagentService

ABOUT_AGENTS = frozenset(
    """
    agent agents.files.get agents.files.history agents.files.list agents.files.set agents.files.version chat.abort
    chat.history chat.inject chat.send chat.startup memory.explain memory.forget memory.index memory.notes.get
    memory.notes.lines memory.notes.list memory.notes.set memory.reset memory.search memory.status prompt.preview
    sessions.abort sessions.compact sessions.create sessions.delete sessions.describe sessions.get sessions.patch
    sessions.reset sessions.rewind sessions.send tools.call tools.effective tools.invoke wake
    """.split()
)
"""Methods that need the agent's sessions, workspace, memory or processes; all others any node answers by itself."""
ON_ALL = frozenset(("channels.start", "channels.stop", "set-heartbeats"))
"""Methods that hold for every node: an account that only one of them stops is taken by the next."""
LONGEST = 20.0
"""Seconds for which a request waits for an agent that is between two nodes."""
PAUSE = 0.1


class CallParams(Params, frozen=True, kw_only=True):
    """Params of `cluster.call`: a request of a client of another node."""

    method: NonEmpty
    params: Any = None
    caller: Any = None


class AbortParams(Params, frozen=True, kw_only=True):
    """Params of `cluster.abort`."""

    key: NonEmpty
    run_id: str | None = None


class WebhookParams(Params, frozen=True, kw_only=True):
    """Params of `cluster.webhook`: a platform's call for an account of another node."""

    path: NonEmpty
    call: ChannelWebhook


class AnswerParams(Params, frozen=True, kw_only=True):
    """Params of `cluster.answer`: an approval that was answered on another node."""

    id: NonEmpty
    decision: str | None = None
    why: str | None = None
    by: str = ""


class DrainParams(Params, frozen=True, kw_only=True):
    """Params of `cluster.drain`."""

    node: NonEmpty
    undo: bool = False


class MoveParams(Params, frozen=True, kw_only=True):
    """Params of `cluster.move`; without a node the agent goes where it belongs."""

    agent: NonEmpty
    node: str = ""


class _Answer(Struct, frozen=True):
    """One answer of the holder, on its way to the node that was asked; the last one has nothing in it."""

    ok: bool = True
    payload: Any = UNSET
    error: ErrorShape | None = None
    end: bool = False


class ForwardingMethods:
    """Finds methods; those about an agent that another node holds are carried out there."""

    def __init__(
        self,
        local: FindsMethods,
        cluster: ClusterMember,
        links: PeerLinks,
        agent_of: Callable[[str | None, str | None], str],
    ) -> None:
        """`agent_of` gives the agent that a session key and an agent's name mean."""
        self._local = local
        self._cluster = cluster
        self._links = links
        self._agent_of = agent_of

    def find(self, name: str) -> RpcMethod | None:
        method = self._local.find(name)
        if method is not None and name in ON_ALL:
            return structs.replace(method, handler=partial(self._do_on_all, method))
        if method is None or name not in ABOUT_AGENTS:
            return method

        async def forward(params: Any, caller: Caller) -> AsyncGenerator[Any, None]:
            async with aclosing(self._carry_out(method, params, caller)) as answers:
                async for answer in answers:
                    yield answer

        return structs.replace(method, handler=forward)

    async def _do_on_all(self, method: RpcMethod, params: Any, caller: Caller) -> Any:
        """Does it here and on every other node; gives the answer of this one."""
        made: Any = method.handler(params, caller)
        answer = await made
        told = {"method": method.name, "params": params, "caller": caller}
        others = [node for node in self._cluster.nodes.values() if node.address and node.id != self._cluster.me]
        calls = [self._links.call(node.id, "cluster.call", told) for node in others]
        found = await asyncio.gather(*calls, return_exceptions=True)
        missing = [node.name for node, said in zip(others, found, strict=True) if isinstance(said, OpenClawError)]
        if missing:
            raise Unavailable(f"it is done, but not on {', '.join(missing)}: do it again in a moment", retry_after=1.0)
        for bug in (said for said in found if isinstance(said, BaseException)):
            raise bug
        return answer

    async def _carry_out(self, method: RpcMethod, params: Any, caller: Caller) -> AsyncGenerator[Any, None]:
        deadline = time.monotonic() + LONGEST
        key = getattr(params, "session_key", None) or getattr(params, "key", None)
        agent = self._agent_of(key, getattr(params, "agent_id", None))
        said = 0
        while True:
            node = self._cluster.holder(agent)
            if node is None or node.id == self._cluster.me or not node.address:
                async with aclosing(_answers(method, params, caller)) as answers:
                    async for answer in answers:
                        yield answer
                return
            told = {"method": method.name, "params": params, "caller": caller}
            try:
                async with aclosing(self._links.answers(node.id, "cluster.call", told)) as replies:
                    count = 0
                    async for reply in replies:
                        answer = msgspec.convert(reply, _Answer)
                        if answer.end:
                            return
                        count += 1
                        if count > said:
                            said = count
                            yield _passed_on(answer)
            except (ConnectionLost, Unavailable, CallFailed) as error:
                # It died, or is about to move: whoever has the agent next answers. A run has its id: it is not begun
                # twice, and its end is the same wherever it is asked for.
                if (said and method.name != "agent") or time.monotonic() > deadline:
                    raise Unavailable(
                        f"the node that holds {agent} went away: ask again in a moment", retry_after=1.0
                    ) from error
                await asyncio.sleep(PAUSE)


async def _answers(method: RpcMethod, params: Any, caller: Caller) -> AsyncGenerator[Any, None]:
    made = method.handler(params, caller)
    if hasattr(made, "__aiter__"):
        async with aclosing(made) as answers:  # type: ignore[type-var]
            async for answer in answers:
                yield answer
    else:
        yield await made


def _passed_on(answer: _Answer) -> Any:
    if answer.ok:
        return None if answer.payload is UNSET else answer.payload
    return MethodFailed(answer.error or ErrorShape(code="UNAVAILABLE", message="?"), answer.payload)


def peer_methods(
    local: FindsMethods,
    relay: EventRelay,
    runs: ClusterRuns,
    subagents: SubagentService,
    questions: ClusterApprovals,
    channels: WebhookEntry,
) -> list[RpcMethod]:
    """What nodes ask of each other."""

    async def call(params: CallParams, caller: Caller) -> AsyncGenerator[Any, None]:
        asked = msgspec.convert(params.caller, Caller)
        request = RequestFrame(id="forwarded", method=params.method, params=Raw(encode(params.params or {})))
        async with aclosing(dispatch(local, request, asked)) as responses:
            async for response in responses:
                error = response.error if isinstance(response.error, ErrorShape) else None
                yield _Answer(response.ok, response.payload, error)
        yield _Answer(end=True)

    async def events(params: NoParams, caller: Caller) -> AsyncGenerator[Any, None]:
        async with aclosing(relay.stream()) as stream:
            async for batch in stream:
                yield batch

    async def abort(params: AbortParams, caller: Caller) -> Any:
        key = parse_session_key(params.key)
        stopped = await runs.abort_here(key, params.run_id)
        await subagents.stop_below(key)
        return {"runs": stopped}

    async def answer(params: AnswerParams, caller: Caller) -> Any:
        if params.decision is not None:
            return await questions.resolve(params.id, params.decision, params.by)
        return await questions.decline(params.id, params.why or "", params.by)

    async def webhook(params: WebhookParams, caller: Caller) -> Any:
        return await channels.take_webhook(params.path, params.call)

    return [
        RpcMethod("cluster.webhook", WebhookParams, webhook, PEER, advertised=False),
        RpcMethod("cluster.call", CallParams, call, PEER, advertised=False),
        RpcMethod(EVENTS, NoParams, events, PEER, advertised=False),
        RpcMethod("cluster.abort", AbortParams, abort, PEER, advertised=False),
        RpcMethod("cluster.answer", AnswerParams, answer, PEER, advertised=False),
    ]


def cluster_methods(cluster: ClusterMember, links: PeerLinks) -> list[RpcMethod]:
    """What people ask about the cluster: `openclaw cluster …`."""

    async def status(params: NoParams, caller: Caller) -> Any:
        await cluster.refresh()
        held: dict[str, list[str]] = {}
        for where in cluster.placed.values():
            held.setdefault(where.node if where.node in cluster.nodes else "", []).append(where.agent)
        nodes = [
            {
                "id": node.id,
                "name": node.name,
                "address": node.address,
                "state": "guest" if node.guest else "silent" if node.silent else "up" if node.able else "draining",
                "self": node.id == cluster.me,
                "linked": node.id == cluster.me or links.is_linked(node.id),
                "startedAtMs": node.started_at,
                "version": node.version,
                "agents": sorted(held.get(node.id, ())),
                "figures": msgspec.json.decode(node.figures),
            }
            for node in sorted(cluster.nodes.values(), key=lambda node: (node.name, node.id))
        ]
        agents = [
            {"agent": where.agent, "node": where.node, "epoch": where.epoch, "pinned": where.pinned or None}
            for where in sorted(cluster.placed.values(), key=lambda where: where.agent)
        ]
        serving = {node.name: msgspec.json.decode(node.figures) for node in cluster.nodes.values() if not node.guest}
        return {
            "node": cluster.me,
            "nodes": nodes,
            "agents": agents,
            "unplaced": sorted(held.get("", ())),
            "differences": told_differences(serving),
        }

    async def drain(params: DrainParams, caller: Caller) -> Any:
        node = await cluster.set_draining(params.node, draining=not params.undo)
        return {"node": node.id, "draining": not params.undo}

    async def move(params: MoveParams, caller: Caller) -> Any:
        await cluster.pin(params.agent, params.node)
        return {"agent": params.agent, "node": params.node or None}

    return [
        RpcMethod("cluster.status", NoParams, status, READ),
        RpcMethod("cluster.drain", DrainParams, drain, ADMIN),
        RpcMethod("cluster.move", MoveParams, move, ADMIN),
    ]
