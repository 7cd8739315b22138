"""Seeds a workspace with starter files on its first run, and only then."""

import os
import secrets
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.agent.settings import AgentsSettings, resolve_agent
from openclaw.core.clock import Clock
from openclaw.core.errors import StateError
from openclaw.core.keys import normalise_agent
from openclaw.core.settings import Live
from openclaw.process.environment import Environment
from openclaw.storage import atomic
from openclaw.workspace.files import ALWAYS, parse
from openclaw.workspace.trust import DirectoryTrust, TrustStore


def workspace_of(agents: AgentsSettings, agent_id: str, environment: Environment) -> Path:
    """The directory of an agent's files, whether or not it is there yet."""
    agent = resolve_agent(agents, agent_id)
    environ, home, state = environment.environ, environment.home_dir, environment.home.state
    named = (agent.workspace or "").strip()
    if not named and not agent.is_default:
        return state / f"workspace-{agent.id}"
    named = named or (agents.defaults.workspace or "").strip() or environ.get("OPENCLAW_WORKSPACE_DIR", "").strip()
    if named:
        return home / named[2:] if named == "~" or named.startswith(("~/", "~\\")) else Path(named)
    profile = environ.get("OPENCLAW_PROFILE", "").strip()
    if profile.lower() in ("", "default"):
        return state / "workspace"
    # The workspaces of all profiles are side by side; one inside the profile's own state directory stays in use.
    moved = bool(environ.get("OPENCLAW_STATE_DIR"))
    ours = (state if moved else state.with_name(".openclaw")) / f"workspace-{normalise_agent(profile)}"
    other = (home / f".openclaw-{normalise_agent(profile)}" if moved else state) / "workspace"
    return other if other.is_dir() and not ours.is_dir() else ours


def is_configured(agents: AgentsSettings, agent_id: str, environment: Environment) -> bool:
    """Whether the configuration names an agent's workspace or leaves it to us; a variable of the moment does not."""
    agent = resolve_agent(agents, agent_id)
    named = agent.workspace or agents.defaults.workspace or not agent.is_default
    return bool(named) or not environment.environ.get("OPENCLAW_WORKSPACE_DIR", "").strip()


TRUST_SECONDS = 5.0


class Workspaces:
    """Finds the workspace of each agent, and puts the starter files there the first time."""

    def __init__(self, agents: Live[AgentsSettings], environment: Environment, clock: Clock) -> None:
        self._agents = agents
        self._environment = environment
        self._clock = clock
        self._found: dict[str, Path] = {}
        self._found_for: AgentsSettings | None = None
        self._seeded: set[Path] = set()
        self._trust = TrustStore(environment.home.state)
        self._trusted: dict[str, tuple[int, float, DirectoryTrust]] = {}

    def trust(self, agent_id: str) -> DirectoryTrust:
        """Whether the words in the agent's workspace are the owner's; looked up again after a change or seconds."""
        held = self._trusted.get(agent_id)
        try:
            said = self._trust.path.stat().st_mtime_ns
        except OSError:
            said = 0
        if held is None or held[0] != said or abs(self._clock.now() - held[1]) > TRUST_SECONDS:
            configured = is_configured(self._agents.current, agent_id, self._environment)
            found = self._trust.trust(self.of(agent_id), configured=configured)
            held = self._trusted[agent_id] = (said, self._clock.now(), found)
        return held[2]

    def trusts(self, directory: str) -> bool:
        """Whether the words in a directory that somebody works in are his own."""
        return self._trust.trust(Path(directory)).trusted

    def of(self, agent_id: str) -> Path:
        """The directory of the agent's files, with its starter files in it."""
        agents = self._agents.current
        if agents is not self._found_for:
            self._found, self._found_for = {}, agents
        path = self._found.get(agent_id)
        if path is None:
            path = self._found[agent_id] = workspace_of(agents, agent_id, self._environment)
        if path not in self._seeded and not agents.defaults.skip_bootstrap:
            ensure(path, self._clock.now())
            self._seeded.add(path)
        return path


STATE = ".openclaw/workspace-state.json"
GIT_SECONDS = 10


class SetupState(Struct, frozen=True, kw_only=True, rename="camel"):
    """The progress of a workspace's first run; times are ISO 8601."""

    version: int = 1
    bootstrap_seeded_at: str | msgspec.UnsetType | None = msgspec.UNSET
    setup_completed_at: str | msgspec.UnsetType | None = msgspec.UNSET


class SeedResult(Struct, frozen=True, kw_only=True):
    """The result of `ensure`."""

    workspace: str
    brand_new: bool
    created: tuple[str, ...] = ()
    git: bool = False
    """Whether a repository was created."""
    setup_complete: bool = False
    notes: tuple[str, ...] = ()


def ensure(workspace: Path, now: float, *, git: str | None = "git") -> SeedResult:
    """Writes the missing starter files of `workspace`; existing ones are left alone.

    `now` is seconds since the epoch; `git` is the program that creates a repository, or `None` for none.
    """
    try:
        workspace.mkdir(parents=True, exist_ok=True)
        moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return _ensure(workspace, moment, git)
    except (FileExistsError, NotADirectoryError) as error:
        raise StateError(f"{workspace} is not a directory: move that file away or set another workspace") from error
    except OSError as error:
        raise StateError(f"cannot prepare the workspace {workspace}: {error.strerror or error}") from error


def _ensure(workspace: Path, now: str, git: str | None) -> SeedResult:
    brand_new = is_brand_new(workspace)
    state, note = read_state(workspace)
    notes = [note] if note else []
    created = []
    bootstrap = workspace / "BOOTSTRAP.md"
    # BOOTSTRAP.md first: after an interruption the next start still finds it.
    if brand_new and not note and not state.bootstrap_seeded_at and create(bootstrap, template("BOOTSTRAP.md")):
        created.append("BOOTSTRAP.md")
    created += [name for name in ALWAYS if create(workspace / name, template(name))]
    wanted = state
    if os.path.lexists(bootstrap):
        wanted = msgspec.structs.replace(state, bootstrap_seeded_at=state.bootstrap_seeded_at or now)
    elif state.bootstrap_seeded_at:
        wanted = msgspec.structs.replace(state, setup_completed_at=state.setup_completed_at or now)
    if wanted != state and not note:
        path = workspace / STATE
        path.parent.mkdir(exist_ok=True)
        atomic.replace_file(path, msgspec.json.format(msgspec.json.encode(wanted)) + b"\n", mode=0o666)
    repository = False
    if brand_new and git and not (workspace / ".git").exists():
        repository, trouble = _git_init(workspace, git)
        notes += [trouble] if trouble else []
    return SeedResult(
        workspace=str(workspace),
        brand_new=brand_new,
        created=tuple(created),
        git=repository,
        setup_complete=bool(wanted.setup_completed_at),
        notes=tuple(notes),
    )


def is_brand_new(workspace: Path) -> bool:
    """Whether the workspace has no files of an agent yet."""
    names = (*ALWAYS, "MEMORY.md", "memory")
    return not any(os.path.lexists(workspace / name) for name in names) and not any(workspace.glob("skills/*/SKILL.md"))


def template(name: str) -> str:
    """The template of `name`."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def create(path: Path, text: str) -> bool:
    """Writes `path` atomically unless it exists; returns whether it was written."""
    if os.path.lexists(path):
        return False
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with draft.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        except OSError:
            # No hard links on this file system; O_EXCL never overwrites either.
            with path.open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return True


def read_state(workspace: Path) -> tuple[SetupState, str]:
    """Reads the setup state, and a note when the file is invalid; then nothing is seeded or rewritten."""
    path = workspace / STATE
    if path.parent.is_symlink():
        return SetupState(), f"{path.parent} is a link; replace it with a directory to record the setup"
    try:
        return msgspec.json.decode(path.read_bytes(), type=SetupState), ""
    except FileNotFoundError:
        return SetupState(), ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return SetupState(), f"{path} is not valid; delete it to record the setup again"


def _git_init(workspace: Path, git: str) -> tuple[bool, str]:
    try:
        done = subprocess.run(
            [git, "init", "--quiet"], cwd=workspace, capture_output=True, timeout=GIT_SECONDS, check=False
        )
    except FileNotFoundError:  # this machine has none
        return False, ""
    except (OSError, subprocess.TimeoutExpired):
        return False, "git could not make a repository in the workspace; run `git init` there to keep its history"
    if done.returncode:
        return False, f"git init failed with code {done.returncode}; run it in the workspace to see why"
    return True, ""


def identity_of(workspaces: Workspaces, agents_settings: Live[AgentsSettings], agent_id: str) -> dict[str, Any]:
    """What an agent is called, and who says so."""
    found = resolve_agent(agents_settings.current, agent_id)
    written = workspaces.of(found.id) / "IDENTITY.md"
    own = parse(written.read_text(errors="replace")) if written.is_file() else parse("")
    chosen = found.entry.identity
    name = chosen.name or found.entry.name or own.name or "Assistant"
    source = "config" if chosen.name or found.entry.name else "workspace" if own.name else "default"
    emoji = chosen.emoji or own.emoji
    return {"agentId": found.id, "name": name, "nameSource": source, **({"emoji": emoji} if emoji else {})}
