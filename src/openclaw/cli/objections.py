"""What the plugins of a running gateway say to an install that a command is about to make."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from openclaw.core.errors import OpenClawError
from openclaw.gateway.lock import running
from openclaw.gateway.reach import call_gateway, find
from openclaw.gateway.surroundings import Environment

SECONDS = 120.0
"""For all plugins together; each has its own, shorter limit."""


def objection(
    surroundings: Environment,
    *,
    target: Literal["skill", "plugin"],
    name: str,
    staged: Path,
    spec: str,
    tree_sha256: str,
    mode: Literal["install", "update"],
    findings: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Why a plugin stops the install; empty when none does. Without a gateway no plugin listens; a gateway that does
    not answer is a reason to stop."""
    found = running(surroundings.home.state)
    if found is None or not found.port:
        return ""
    params = {
        "targetType": target,
        "targetName": name,
        "sourcePath": str(staged),
        "spec": spec,
        "treeSha256": tree_sha256,
        "mode": mode,
        "findings": list(findings),
    }
    try:
        answer = call_gateway(find(surroundings), "install.check", params, timeout=SECONDS)
    except (OpenClawError, OSError) as error:
        why = error.message if isinstance(error, OpenClawError) else str(error)
        return f"the plugins of the running gateway could not be asked ({why}). Stop it, or try again"
    if not answer["blocked"]:
        return ""
    return f"the plugin {answer['plugin']} objects: {answer['reason']}"
