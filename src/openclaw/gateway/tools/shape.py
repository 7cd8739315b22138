"""What the gateway's tools share: arguments in, JSON out, and who may see whose sessions."""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import msgspec

from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.gateway.desk import SessionService
from openclaw.policy.settings import ToolsSettings
from openclaw.turns.roster import SubagentStore

T = TypeVar("T")

OWN_GATEWAY = "this tool works in the gateway it belongs to; leave it out"
ELSEWHERE = {"gatewayUrl": OWN_GATEWAY, "gatewayToken": OWN_GATEWAY, "timeoutMs": "nothing here waits on a network"}
"""How other gateways would be reached."""


def taken(args: Mapping[str, Any], wanted: type[T]) -> T:
    """`args` as the frozen type `wanted`."""
    try:
        return msgspec.convert(dict(args), wanted, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"Invalid arguments: {error}") from error


def json_output(result: Mapping[str, Any], *, failed: bool = False, ends_run: bool = False) -> Output:
    """`result` as the JSON a model reads."""
    text = json.dumps(result, indent=2, ensure_ascii=False)
    output = Output.failed(text) if failed else Output.of(text)
    return msgspec.structs.replace(output, ends_run=ends_run)


class SimpleTool:
    """A tool that needs nothing alone and does nothing that policy watches, unless it says otherwise."""

    spec: ToolSpec

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()


def spec(
    name: str,
    label: str,
    summary: str,
    description: str,
    properties: Mapping[str, Any],
    *required: str,
    aliases: Mapping[str, str] | None = None,
    absent: Mapping[str, str] | None = None,
) -> ToolSpec:
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = list(required)
    return ToolSpec(
        name=name,
        label=label,
        summary=summary,
        description=description,
        parameters=parameters,
        aliases=aliases or {},
        absent=absent or {},
    )


class SessionVisibility(SimpleTool):
    """A tool that finds other sessions, as far as its own session may see."""

    def __init__(self, desk: SessionService, roster: SubagentStore) -> None:
        self._desk = desk
        self._roster = roster

    def _reach(self, context: ToolContext, text: str) -> SessionKey:
        viewer = self._desk.key(context.session_key)
        target = self._desk.key(text) if text.startswith("agent:") else self._desk.key(text, viewer.agent)
        if not self._sees(viewer, target):
            raise InvalidRequest(
                f"{target} is not visible from this session (tools.sessions.visibility and tools.agentToAgent decide)."
            )
        return target

    def _sees(self, viewer: SessionKey, target: SessionKey) -> bool:
        app = self._desk.app
        closed = app.boxes.is_boxed(viewer) and app.boxes.rules(viewer.agent).spawned_only
        return may_see(viewer, target, app.config.tools, self._roster, spawned_only=closed)


def may_see(
    viewer: SessionKey,
    target: SessionKey,
    settings: ToolsSettings,
    roster: SubagentStore,
    *,
    spawned_only: bool = False,
) -> bool:
    """Whether the tools of one session may look at or write to another; in a sandbox usually only at its sub-agents."""
    if viewer == target:
        return True
    if spawned_only:
        return str(target) in {child.key for child in roster.below(str(viewer))}
    if target.agent != viewer.agent:
        between = settings.agent_to_agent
        return (
            settings.sessions.visibility == "all"
            and between.enabled
            and not viewer.is_subagent
            and _takes_part((viewer.agent, target.agent), between.allow)
        )
    below = str(target) in {child.key for child in roster.below(str(viewer))}
    # A sub-agent sees itself and those it started, whatever its starter may see.
    if viewer.is_subagent or settings.sessions.visibility == "tree":
        return below
    return settings.sessions.visibility in ("agent", "all")


def _takes_part(agents: Sequence[str], patterns: Sequence[str]) -> bool:
    return not patterns or all(any(fnmatchcase(agent, pattern) for pattern in patterns) for agent in agents)
