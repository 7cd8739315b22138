"""Looks at the disk and at the running gateway: permissions, the allowlist, workspaces, records."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from openclaw.agent.settings import agent_ids
from openclaw.config.edit import RECORDED_AS, open_log
from openclaw.config.schema import Config
from openclaw.core.deferred import http_client
from openclaw.core.errors import OpenClawError
from openclaw.gateway.audit.settings_checks import Found, judge_allowlist
from openclaw.gateway.running import running_gateway
from openclaw.process.environment import Environment
from openclaw.security import scan
from openclaw.security.approvals import ApprovalFile
from openclaw.security.audit import digest
from openclaw.security.redaction import redact_found
from openclaw.workspace.files import load as load_workspace
from openclaw.workspace.seed import is_configured, workspace_of
from openclaw.workspace.trust import TrustStore

_SYNCED = ("Dropbox", "OneDrive", "Google Drive", "GoogleDrive", "iCloud", "Mobile Documents", "Nextcloud", "pCloud")
PROBE_SECONDS = 5.0


def private_files(environment: Environment) -> Iterator[tuple[str, Path, int]]:
    """The check, the path and the mode of everything of ours that others could read or write."""
    state, config = environment.home.state, environment.home.config
    if sys.platform == "win32":
        return
    groups: tuple[tuple[str, list[Path]], ...] = (
        ("state_dir", [state]),
        ("config", [config, *config.parent.glob(f"{config.name}.*")]),
        ("credentials", [*_below(state / "credentials"), *state.glob("agents/*/agent/*.json"), state / ".env"]),
        ("approvals", [state / "exec-approvals.json"]),
        ("sessions", list(state.glob("agents/*/sessions/*.jsonl"))[:1_000]),
        ("logs", _below(state / "logs")),
    )
    for name, paths in groups:
        for path in paths:
            with suppress(OSError):
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                    yield name, path, stat.S_IMODE(mode)


def _below(folder: Path) -> list[Path]:
    return [Path(root, name) for root, folders, files in os.walk(folder) for name in (*folders, *files)]


def judge_files(environment: Environment) -> Iterator[Found]:
    """Who else on this machine can read or write what is ours."""
    found: dict[str, list[str]] = {}
    for name, path, mode in private_files(environment):
        if check := _loose(name, mode):
            found.setdefault(check, []).append(f"{mode:04o} {path}")
    for check, paths in found.items():
        yield check, "\n".join(paths[:20])
    home = environment.home
    for check, path in (("fs.state_dir.symlink", home.state), ("fs.config.symlink", home.config)):
        if path.is_symlink():
            yield check, f"{path} leads to {path.resolve()}"
    if any(part in _SYNCED for part in home.state.resolve().parts):
        yield "fs.state_dir.synced", str(home.state.resolve())


def _loose(name: str, mode: int) -> str:
    if name == "state_dir":
        if mode & 0o002:
            return "fs.state_dir.world_writable"
        if mode & 0o020:
            return "fs.state_dir.group_writable"
        return "fs.state_dir.readable" if mode & 0o055 else ""
    if mode & 0o022 and name in ("config", "approvals"):
        return f"fs.{name}.writable"
    if name == "approvals":
        return ""
    return f"fs.{name}.readable" if mode & 0o066 else ""


def judge_state(environment: Environment, config: Config) -> Iterator[Found]:
    """What was allowed for good, whose words the workspaces hold, and who changed the configuration last."""
    with suppress(OpenClawError):
        agents = ApprovalFile(environment.home.state / "exec-approvals.json").read().agents
        yield from judge_allowlist([entry for agent in agents.values() for entry in agent.allowlist])
    store = TrustStore(environment.home.state)
    for agent_id in agent_ids(config.agents):
        path = workspace_of(config.agents, agent_id, environment)
        if path.is_dir():
            trust = store.trust(path, configured=is_configured(config.agents, agent_id, environment))
            if not trust.trusted:
                yield "workspace.untrusted", f"{path}: {trust.why}"
    with suppress(OpenClawError):
        last = next(iter(open_log(environment.home).entries(plugin=RECORDED_AS, limit=1)), None)
        text = environment.home.config.read_text() if environment.home.config.exists() else ""
        if last is not None and (last.hook == "file" or last.after_sha256 != digest(text)):
            yield "config.changed_elsewhere", str(environment.home.config)


def judge_deeply(environment: Environment, config: Config) -> Iterator[Found]:
    """What takes longer: the texts of the workspaces, the chain of the record, the running gateway."""
    for agent_id in agent_ids(config.agents):
        for file in load_workspace(workspace_of(config.agents, agent_id, environment)):
            if scan.is_critical(scan.scan(file.content)):
                yield "workspace.suspicious", f"{file.path}: {scan.scan(file.content)[0]}"
            if redact_found(file.content) != file.content:
                yield "workspace.credentials", file.path
    with suppress(OpenClawError):
        problems = open_log(environment.home).verify().problems
        if problems:
            yield "audit.chain_broken", "\n".join(problems[:5])
    gateway = running_gateway(environment.home.state)
    if gateway is not None and config.gateway.auth.mode != "none" and _answers_strangers(gateway.port):
        yield "gateway.probe_open", f"port {gateway.port}"


def _answers_strangers(port: int) -> bool:
    """Whether a tool can be called without a credential; asks for one that does not exist."""
    connection = http_client.HTTPConnection("127.0.0.1", port, timeout=PROBE_SECONDS)
    try:
        body = b'{"tool":"none"}'
        connection.request("POST", "/tools/invoke", body, {"content-type": "application/json"})
        return connection.getresponse().status not in (401, 403, 404, 421, 429)
    except (OSError, http_client.HTTPException):
        return False
    finally:
        connection.close()
