"""Runs the security audit, and applies the repairs that are safe."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from openclaw.agent.settings import agent_ids, resolve_agent
from openclaw.config import tree
from openclaw.config.edit import Editor
from openclaw.config.load import LoadedConfig
from openclaw.core.errors import ConfigError
from openclaw.gateway import doctor
from openclaw.gateway.audit.catalog import RULES, AuditRule
from openclaw.gateway.audit.file_checks import judge_deeply, judge_files, judge_state, private_files
from openclaw.gateway.audit.settings_checks import AuditFacts, judge_settings
from openclaw.gateway.doctor import SEVERITIES, DoctorContext, DoctorFinding, DoctorFix
from openclaw.gateway.exposure import ExposureOptions, decide
from openclaw.process.environment import Environment


def audit(scene: DoctorContext, *, deep: bool = False) -> list[DoctorFinding]:
    """Everything dangerous, the worst first, less what the owner suppressed."""
    environment = scene.environment
    found = list(judge_files(environment))
    if scene.loaded is not None:
        config = scene.loaded.config
        found += judge_settings(gather_facts(scene.loaded))
        found += judge_state(environment, config)
        found += judge_deeply(environment, config) if deep else ()
        found = [each for each in found if each[0] not in config.security.audit.suppressions]
    findings = [_finding(RULES[check], detail, scene) for check, detail in found]
    findings += [
        DoctorFinding("config.invalid", "critical", str(problem), remediation="openclaw doctor")
        for problem in scene.problems
    ]
    return [finding for severity in SEVERITIES for finding in findings if finding.severity == severity]


def gather_facts(loaded: LoadedConfig) -> AuditFacts:
    config = loaded.config
    try:
        exposure = decide(config.gateway, loaded.variables, ExposureOptions())
        secret, exposed = exposure.secret, not exposure.local
    except ConfigError:  # it would not start: the settings alone are judged
        secret, exposed = config.gateway.auth.token or config.gateway.auth.password, config.gateway.bind == "lan"
    models = {each: resolve_agent(config.agents, each).primary or "" for each in agent_ids(config.agents)}
    return AuditFacts(
        config=config,
        secret=secret.reveal() if secret else "",
        exposed=exposed,
        models={agent: model for agent, model in models.items() if model},
    )


def _finding(rule: AuditRule, detail: str, scene: DoctorContext) -> DoctorFinding:
    return DoctorFinding(rule.id, rule.severity, rule.title, f"{rule.why}\n{detail}", rule.mend, _repair(rule, scene))


def _repair(rule: AuditRule, scene: DoctorContext) -> DoctorFix | None:
    """What `--fix` does: takes rights of others away, and unsets dangerous settings."""
    if rule.id.startswith("fs.") and not rule.id.endswith(("symlink", "synced")):
        kind = rule.id.split(".")[1]
        return DoctorFix(f"take the rights of others away ({kind})", partial(_tighten, scene.environment, kind))
    raw = scene.loaded.raw if scene.loaded is not None else {}
    paths = [path for path in rule.unsets if tree.has(raw, tree.parse_path(path))]
    if not paths:
        return None
    return DoctorFix(f"unset {', '.join(paths)}", partial(_unset, scene.environment, paths))


def _tighten(environment: Environment, kind: str) -> None:
    for name, path, mode in private_files(environment):
        if name == kind and mode & 0o077:
            Path(path).chmod(mode & 0o700)


def _unset(environment: Environment, paths: Iterable[str]) -> None:
    editor = Editor(environment.home, environment.environ, "security audit --fix")
    for path in paths:
        editor.unset(path)


def examine(
    environment: Environment, agreed: tuple[str, str] | None = None, *, security: bool = False, deep: bool = False
) -> dict[str, Any]:
    """What the doctor finds, or with `security` the audit, after the repair (finding and plan) that was `agreed`."""

    def look(scene: DoctorContext) -> list[DoctorFinding]:
        return audit(scene, deep=deep) if security else doctor.run_checks(scene)

    if agreed is not None:
        doctor.apply_repair(look(doctor.collect_context(environment)), *agreed)
    scene = doctor.collect_context(environment)
    return doctor.report(scene, look(scene))
