"""The words of the table that says what text from elsewhere may bring about."""

from typing import Literal, get_args

Deed = Literal[
    "read",
    "read-secret",
    "write",
    "write-outside",
    "write-instructions",
    "delete",
    "fetch",
    "fetch-composed",
    "run",
    "send",
    "schedule",
    "configure",
    "spend",
    "delegate",
]
"""What a call does, as far as policy cares."""
Word = Literal["allow", "ask", "deny"]
Column = Literal["none", "skill", "tool", "external", "stranger"]
"""The least trusted label of what stands in the context; `none` when all of it is the owner's."""
DEEDS: tuple[Deed, ...] = get_args(Deed)
COLUMNS: tuple[Column, ...] = get_args(Column)
