"""The table: what text from elsewhere may bring about. Labels in the context x what a call does -> allow, ask, deny.

Pure. The configuration may change every field of it (`security.externalContent.table`).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from openclaw.core.deed import COLUMNS, DEEDS, ActionKind, LabelColumn, LabelDecision
from openclaw.core.origin import UNTRUSTED, Origin, merge_origins
from openclaw.policy.deeds import WORDS
from openclaw.policy.execution import Allow, AskPerson, Deny, Ruling

Mode = Literal["off", "approve", "deny"]
Table = Mapping[ActionKind, Mapping[LabelColumn, LabelDecision]]
_STRICTNESS: dict[LabelDecision, int] = {"allow": 0, "ask": 1, "deny": 2}
SHOWN = 3


def _row(
    none: LabelDecision, skill: LabelDecision, tool: LabelDecision, external: LabelDecision, stranger: LabelDecision
) -> dict[LabelColumn, LabelDecision]:
    return {"none": none, "skill": skill, "tool": tool, "external": external, "stranger": stranger}


TABLE: Table = {
    #                        no label  skill    tool     external stranger
    "read": _row("allow", "allow", "allow", "allow", "ask"),
    "read-secret": _row("ask", "ask", "ask", "ask", "deny"),
    "write": _row("allow", "allow", "allow", "allow", "ask"),
    "write-outside": _row("allow", "ask", "ask", "ask", "deny"),
    "write-instructions": _row("allow", "ask", "ask", "ask", "deny"),
    "delete": _row("allow", "ask", "ask", "ask", "deny"),
    "fetch": _row("allow", "allow", "allow", "allow", "allow"),
    "fetch-composed": _row("allow", "ask", "ask", "ask", "ask"),
    "run": _row("allow", "ask", "ask", "ask", "deny"),
    "send": _row("allow", "ask", "ask", "ask", "deny"),
    "schedule": _row("allow", "ask", "ask", "ask", "deny"),
    "configure": _row("ask", "ask", "ask", "ask", "deny"),
    "spend": _row("allow", "ask", "ask", "ask", "deny"),
    "delegate": _row("allow", "allow", "allow", "allow", "ask"),
}


def table(changes: Mapping[LabelColumn, Mapping[ActionKind, LabelDecision]], mode: Mode = "approve") -> Table:
    """The table with the owner's changes; `mode` softens it (off) or turns every question into a no (deny)."""
    made: dict[ActionKind, dict[LabelColumn, LabelDecision]] = {}
    for deed in DEEDS:
        made[deed] = {}
        for column in COLUMNS:
            word = TABLE[deed][column]
            if column != "none" and mode == "off":
                word = TABLE[deed]["none"]
            elif column != "none" and mode == "deny" and word == "ask" and TABLE[deed]["none"] == "allow":
                word = "deny"
            made[deed][column] = changes.get(column, {}).get(deed, word)
    return made


def decide(deeds: Sequence[ActionKind], origins: Sequence[Origin], rules: Table) -> Ruling:
    """The ruling on a call that does `deeds`, in a conversation that holds text from `origins`."""
    here = merge_origins(origins)
    columns: tuple[LabelColumn, ...] = tuple({_column(each) for each in here}) or ("none",)
    ranked = [(rules[deed][column], deed) for deed in deeds for column in (*columns, "none")]
    word, deed = max(ranked, key=lambda each: _STRICTNESS[each[0]], default=("allow", "read"))
    if word == "allow":
        return Allow("nothing speaks against it")
    plainly = rules[deed]["none"] == word
    why = f"it {WORDS[deed]}" if plainly and not here else explain(deed, here)
    return Deny(why) if word == "deny" else AskPerson(why)


def explain(deed: ActionKind, origins: Sequence[Origin]) -> str:
    """Why a person is asked, with the texts that may be behind it."""
    named = [each.source for each in sorted(origins, key=lambda each: UNTRUSTED.index(each.label))]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return f"it {WORDS[deed]}, and untrusted content was read before it: {'; '.join(named[:SHOWN])}{more}"


def _column(each: Origin) -> LabelColumn:
    match each.label:
        case "skill" | "tool" | "external" | "stranger":
            return each.label
        case _:
            return "none"


def render_table(rules: Table) -> str:
    """The table as Markdown, for the documentation and the terminal."""
    lines = ["| what the call does | no label | skill | tool | external | stranger |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{deed}`: {WORDS[deed]} | {' | '.join(rules[deed][column] for column in COLUMNS)} |" for deed in DEEDS
    ]
    return "\n".join(lines)
