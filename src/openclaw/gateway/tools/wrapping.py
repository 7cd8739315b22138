"""Enclosing external text for the tools: the one place where the id is drawn."""

import secrets

from openclaw.trust.wrap import LABELS, Source, wrap_external_content


def wrap(content: str, source: str, *, warn: bool = True) -> str:
    """`content` enclosed under a fresh id; a source nobody knows is `unknown`."""
    known: Source = source if source in LABELS else "unknown"
    return wrap_external_content(content, known, marker_id=secrets.token_hex(8), include_warning=warn)
