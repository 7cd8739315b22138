"""Entries of the audit as a prompt's report has them."""

from openclaw.prompt.report import ChangeLine
from openclaw.trust.audit import Entry


def lined(entry: Entry) -> ChangeLine:
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
