"""`security.profile`: named sets of settings. What is set by hand wins over the profile. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

SecurityProfile = Literal["strict", "balanced", "open"]

PROFILES: Mapping[str, Mapping[str, Any]] = {
    # For a machine, a workspace or a chat that others share.
    "strict": {
        "agents.defaults.sandbox.mode": "all",
        "browser.evaluateEnabled": False,
        "gateway.limits.perAddress": 16,
        "security.externalContent.taintTools": "deny",
        "skills.containment": "enforce",
        "skills.permissions": "enforce",
        "skills.trust": "locked",
        "tools.elevated.enabled": False,
        "tools.fs.workspaceOnly": True,
    },
    # What the settings say by themselves.
    "balanced": {},
    # For a machine with nothing on it: commands run unasked. Labels of text from elsewhere still ask.
    "open": {
        "skills.permissions": "off",
        "tools.exec.ask": "off",
        "tools.exec.security": "full",
        "tools.exec.strictInlineEval": False,
    },
}


def apply_profile(data: dict[str, Any]) -> dict[str, Any]:
    """`data` with the settings of its profile where it has none of its own."""
    security = data.get("security")
    name = security.get("profile") if isinstance(security, dict) else None
    chosen = PROFILES.get(name, {}) if isinstance(name, str) else {}
    for path, value in chosen.items():
        data = _default(data, path.split("."), value)
    return data


def _default(data: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    first, *rest = path
    inner = data.get(first)
    if not rest:
        return data if first in data else {**data, first: value}
    if inner is not None and not isinstance(inner, dict):
        return data  # not what belongs there: the check says so
    return {**data, first: _default(inner or {}, rest, value)}
