"""The words of the table that says what text from elsewhere may bring about."""

from typing import Literal, get_args

ActionKind = Literal[
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
LabelDecision = Literal["allow", "ask", "deny"]
LabelColumn = Literal["none", "skill", "tool", "external", "stranger"]
"""The least trusted label of what stands in the context; `none` when all of it is the owner's."""
DEEDS: tuple[ActionKind, ...] = get_args(ActionKind)
COLUMNS: tuple[LabelColumn, ...] = get_args(LabelColumn)
