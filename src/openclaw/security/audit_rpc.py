"""RPC methods about the audit log: `audit.list`, what plugins changed, and `audit.verify`, whether it was touched."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from openclaw.protocol.params import NonEmpty, NoParams, Params, Positive
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import READ
from openclaw.security.audit import AuditEntry, digest
from openclaw.security.audit_log import AuditLog

_FENCED = re.compile(r"<<<([A-Z_]+) [^\n]*>>>\n(.*?)\n<<<END_\1 ", re.DOTALL)


class AuditListParams(Params, frozen=True, kw_only=True):
    """Params of `audit.list`: entries of one run or plugin; with `include_text` also what was put into prompts."""

    run_id: NonEmpty | None = None
    plugin: NonEmpty | None = None
    limit: Positive = 50
    include_text: bool = False


def audit_methods(
    audit: AuditLog,
    prompt_texts: Callable[[str], Awaitable[list[str]]],
    witnessed: Callable[[], Awaitable[Sequence[tuple[int, str]]]],
) -> list[RpcMethod]:
    """`prompt_texts` gives the recorded pieces of a run's prompt, `witnessed` the entries that prompts refer to."""

    async def texts(entries: Sequence[AuditEntry]) -> dict[str, str]:
        """The texts that entries put into prompts, by digest."""
        runs = {entry.run_id for entry in entries if entry.run_id}
        pieces = [piece for run_id in runs for piece in await prompt_texts(run_id)]
        inside = [text for piece in pieces for _, text in _FENCED.findall(piece)]
        return {digest(text): text for text in (*pieces, *(piece.strip() for piece in pieces), *inside)}

    async def list_entries(params: AuditListParams, caller: Caller) -> Any:
        entries = await asyncio.to_thread(audit.entries, params.run_id)
        found = [entry for entry in entries if params.plugin in (None, entry.plugin)][: params.limit]
        known = await texts(found) if params.include_text else {}
        text = {each: {"text": text} for each, text in known.items()}
        return {"entries": [{**msgspec.to_builtins(each), **text.get(each.after_sha256, {})} for each in found]}

    async def verify(params: NoParams, caller: Caller) -> Any:
        checked = await asyncio.to_thread(audit.verify, await witnessed())
        return {"ok": not checked.problems, **msgspec.to_builtins(checked)}

    return [
        RpcMethod("audit.list", AuditListParams, list_entries, READ),
        RpcMethod("audit.verify", NoParams, verify, READ),
    ]
