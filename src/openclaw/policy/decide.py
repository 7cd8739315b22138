"""Whether a call needs the owner's word: what it can do, and whether untrusted text is in the context. Pure."""

from collections.abc import Sequence
from typing import Literal

from openclaw.core.tool import Effects
from openclaw.policy.execution import Allow, AskFirst, Deny, Ruling

Taint = Literal["off", "approve", "deny"]
GUARDED = Effects.RUNS_CODE | Effects.SENDS_OUT | Effects.CHANGES_CONFIG | Effects.SPENDS
"""What text from elsewhere must not bring about by itself."""


def decide(effects: Effects, untrusted: Sequence[str], taint: Taint) -> Ruling:
    """The ruling on a call. `untrusted` names the sources of external text the model has read."""
    if untrusted and effects & GUARDED and taint != "off":
        why = f"untrusted content was read before it: {'; '.join(untrusted[-3:])}"
        return Deny(why) if taint == "deny" else AskFirst(why)
    if Effects.CHANGES_CONFIG in effects:
        return AskFirst("it changes the configuration")
    return Allow("nothing speaks against it")
