"""RPC method `prompt.report`: the prompt of a run, section by section, and its diff to the run before."""

from typing import Any

import msgspec

from openclaw.core.errors import NotFound
from openclaw.core.keys import KeyResolver
from openclaw.prompt.archive import ArchivedPrompt, PromptArchive
from openclaw.prompt.diff import PromptDiff, diff
from openclaw.protocol.params import NonEmpty, Params, exactly_one
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import READ


class PromptReportParams(Params, frozen=True, kw_only=True):
    """Params of `prompt.report`: one run, or the latest of a session."""

    run_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    include_text: bool | None = None

    def __post_init__(self) -> None:
        exactly_one(runId=self.run_id, sessionKey=self.session_key)


RUNS = 30


def prompt_methods(sessions: KeyResolver, archive: PromptArchive) -> list[RpcMethod]:

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
            "diff": {"previousRunId": before, **_shown(change)} if change else None,
            "runs": [{"runId": run_id, "createdAt": at} for run_id, _, at in recent],
            **({"texts": {each.id: each.rendered for each in stored.prompt.sections}} if params.include_text else {}),
        }

    return [RpcMethod("prompt.report", PromptReportParams, report, READ)]


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


def _shown(change: PromptDiff) -> dict[str, Any]:
    return {
        "prefixKept": change.prefix_kept,
        "brokenAt": change.broken_at,
        "brokenAtByte": change.broken_at_byte,
        "prefixBytes": change.prefix_bytes,
        "changes": [
            {
                "id": each.id,
                "kind": each.kind,
                "stable": each.stable,
                "beforeChars": each.before_chars,
                "afterChars": each.after_chars,
                "source": each.source,
            }
            for each in change.changes
        ],
    }
