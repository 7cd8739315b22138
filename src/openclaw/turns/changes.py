"""Entries of the audit as a prompt's report has them."""

from collections.abc import Sequence

from openclaw.core.tool import ToolSpec
from openclaw.prompt.report import ChangeLine
from openclaw.trust.audit import AuditEntry
from openclaw.turns.briefing import BuiltPrompt, changed


def lined(entry: AuditEntry) -> ChangeLine:
    return ChangeLine(
        plugin=entry.plugin,
        hook=entry.hook,
        field=entry.field,
        before_chars=entry.before_chars,
        after_chars=entry.after_chars,
        refused=entry.refused,
        note=entry.note,
        seq=entry.seq,
        hash=entry.hash,
    )


def recorded(briefing: BuiltPrompt, entries: Sequence[AuditEntry], tools: Sequence[ToolSpec]) -> BuiltPrompt:
    """The briefing with an account of what was changed before its prompt was written."""
    return changed(briefing, briefing.prompt, tuple(map(lined, entries)), tools)
