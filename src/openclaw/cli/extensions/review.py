"""What `skills install` and `plugins install` share: the report of findings, and who may object."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from openclaw.cli.render import confirm, say
from openclaw.config.load import LoadedConfig
from openclaw.core.errors import OpenClawError
from openclaw.gateway.client_target import find_gateway
from openclaw.gateway.running import call_gateway, running_gateway
from openclaw.plugins.install import StagedPlugin
from openclaw.process.environment import Environment
from openclaw.security import install_policy
from openclaw.skills.install import StagedSkill

HOOK_SECONDS = 120.0
"""For all plugins together; each has its own, shorter limit."""
GRAVE = "a look through it found something grave. If you have read it and still want it: --accept-risk"

Staged = StagedSkill | StagedPlugin


class InstallOptions(Struct, frozen=True, kw_only=True):
    """What the person said beforehand."""

    force: bool = False
    """Replace what is there."""
    yes: bool = False
    accept_risk: bool = False
    quiet: bool = False
    mode: Literal["install", "update"] = "install"


def _target(ready: Staged) -> tuple[Literal["skill", "plugin"], str]:
    return ("skill" if isinstance(ready, StagedSkill) else "plugin", ready.name)


def ask_policy(loaded: LoadedConfig, options: InstallOptions, ready: Staged) -> str:
    """Why the operator's policy stops the install; empty when it does not."""
    target, name = _target(ready)
    question = install_policy.PolicyQuestion(
        target=target,
        name=name,
        staged=ready.directory,
        kind=ready.kind,
        spec=ready.spec,
        tree_sha256=ready.tree_sha256,
        mode=options.mode,
    )
    return install_policy.ask(question, loaded.config.security.install_policy, loaded.variables, confirm)


def ask_plugins(environment: Environment, options: InstallOptions, ready: Staged) -> str:
    """Why a plugin stops the install; empty when none does. Without a gateway no plugin listens; a gateway that does
    not answer is a reason to stop."""
    found = running_gateway(environment.home.state)
    if found is None or not found.port:
        return ""
    target, name = _target(ready)
    params = {
        "targetType": target,
        "targetName": name,
        "sourcePath": str(ready.directory),
        "spec": ready.spec,
        "treeSha256": ready.tree_sha256,
        "mode": options.mode,
        "findings": [finding_to_json(each) for each in ready.findings],
    }
    try:
        answer = call_gateway(find_gateway(environment), "install.check", params, timeout=HOOK_SECONDS)
    except (OpenClawError, OSError) as error:
        why = error.message if isinstance(error, OpenClawError) else str(error)
        return f"the plugins of the running gateway could not be asked ({why}). Stop it, or try again"
    return f"the plugin {answer['plugin']} objects: {answer['reason']}" if answer["blocked"] else ""


def finding_to_json(finding: Any) -> dict[str, Any]:
    names = ("severity", "message", "file", "line")
    return {"ruleId": finding.rule, **{name: getattr(finding, name) for name in names}}


def print_findings(findings: Iterable[Any], *, err: bool = False) -> None:
    bullets("A look through its files found:", [str(each) for each in findings], err=err)


def bullets(heading: str, lines: Sequence[str], *, err: bool = False) -> None:
    if heading and (lines or not heading.endswith(":")):
        say(f"\n{heading}", err=err)
    for line in lines:
        say(f"  {line}", err=err)
