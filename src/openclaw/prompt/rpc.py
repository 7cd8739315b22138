"""RPC methods about the system prompt: `prompt.report` (of a run, with its diff to the run before), `prompt.preview`
(what would be sent now) and `prompt.runs`."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from openclaw.agent.settings import AgentsSettings
from openclaw.core.errors import NotFound
from openclaw.core.keys import KeyResolver, SessionKey
from openclaw.core.settings import Live
from openclaw.prompt.archive import ArchivedPrompt, PromptArchive
from openclaw.prompt.builder import PromptPreview
from openclaw.prompt.diff import PromptDiff, diff
from openclaw.prompt.lint import lint
from openclaw.protocol.params import NonEmpty, Params, Positive, exactly_one
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import READ


class PromptReportParams(Params, frozen=True, kw_only=True):
    """Params of `prompt.report`: one run, or the latest of a session."""

    run_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    include_text: bool | None = None

    def __post_init__(self) -> None:
        exactly_one(runId=self.run_id, sessionKey=self.session_key)


class PromptPreviewParams(Params, frozen=True, kw_only=True):
    """Params of `prompt.preview`: whose prompt, or with `run_id` the one that a run on record was sent."""

    run_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    model: NonEmpty | None = None
    mode: Literal["full", "minimal", "none"] | None = None
    channel: str = ""
    cwd: str = ""
    """Where the person at a terminal is; empty for any other client."""
    guest: bool = False
    """As if somebody other than the owner wrote."""


class PromptRunsParams(Params, frozen=True, kw_only=True):
    """Params of `prompt.runs`."""

    limit: Positive = 20


RUNS = 30
Preview = Callable[[SessionKey, PromptPreviewParams], Awaitable[PromptPreview]]


def prompt_methods(
    sessions: KeyResolver,
    archive: PromptArchive,
    agents: Live[AgentsSettings],
    make_preview: Preview,
    *,
    live: bool,
) -> list[RpcMethod]:
    """`live` says whether channels are connected in this process, so that a preview knows what they can do."""

    async def preview(params: PromptPreviewParams, caller: Caller) -> Any:
        if params.run_id is not None:
            stored = await archive.find(params.run_id)
            return {"prompt": msgspec.to_builtins(stored.prompt), "report": msgspec.to_builtins(stored.report)}
        made = await make_preview(sessions.key(params.session_key, params.agent_id), params)
        built = made.built
        found = lint(
            built.facts,
            max_file_chars=agents.current.defaults.bootstrap_max_chars,
            schemas=sum(spec.chars for spec in made.tools),
            window=made.window,
        )
        return {
            "prompt": msgspec.to_builtins(built.prompt),
            "report": msgspec.to_builtins(built.report),
            "tools": [
                {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
                for spec in made.tools
            ],
            "live": live,
            "findings": [
                *({**msgspec.to_builtins(finding), "text": str(finding)} for finding in found),
                *({"kind": "content", "text": text} for text in built.report.findings),
            ],
        }

    async def list_runs(params: PromptRunsParams, caller: Caller) -> Any:
        recent = await archive.recent(params.limit)
        return {"runs": [{"runId": run_id, "sessionKey": key, "createdAt": at} for run_id, key, at in recent]}

    async def report(params: PromptReportParams, caller: Caller) -> Any:
        if params.run_id is not None:
            stored: ArchivedPrompt | None = await archive.find(params.run_id)
        else:
            stored = await archive.latest(str(sessions.key(params.session_key or "main")))
        if stored is None:
            raise NotFound(f"nothing was sent for {params.session_key} yet: say something there first")
        recent = await archive.recent(RUNS, stored.session_key)
        ids = [run_id for run_id, _, _ in recent]
        older = ids[ids.index(stored.run_id) + 1 :] if stored.run_id in ids else []
        before = older[0] if older else None
        earlier = await archive.find(before) if before else None
        change = diff(earlier.prompt, stored.prompt) if earlier else None
        return {
            "runId": stored.run_id,
            "sessionKey": stored.session_key,
            "createdAt": stored.created_at,
            "report": msgspec.to_builtins(stored.report),
            "cached": cached(stored, change),
            "diff": {"previousRunId": before, **msgspec.to_builtins(change)} if change else None,
            "runs": [{"runId": run_id, "createdAt": at} for run_id, _, at in recent],
            **({"texts": {each.id: each.rendered for each in stored.prompt.sections}} if params.include_text else {}),
        }

    return [
        RpcMethod("prompt.report", PromptReportParams, report, READ),
        RpcMethod("prompt.preview", PromptPreviewParams, preview, READ),
        RpcMethod("prompt.runs", PromptRunsParams, list_runs, READ),
    ]


def cached(stored: ArchivedPrompt, change: PromptDiff | None) -> list[str]:
    """The sections a provider can read from its cache: the unchanged beginning of the stable part."""
    if change is None:
        return []
    found = []
    for section in stored.prompt.sections:
        if not section.stable or (not change.prefix_kept and section.id == change.broken_at):
            break
        found.append(section.id)
    return found
