"""Decides whether a session is sandboxed, and in which sandbox: settings, names, pruning, mounts. Pure."""

import hashlib
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field, structs

from openclaw.core.errors import ConfigError
from openclaw.core.keys import SessionKey
from openclaw.core.sandbox import AGENT_MOUNT, RUNTIME, SANDBOX_HOME, TMP, WORKDIR, Access, Mount, SandboxLimits
from openclaw.security.settings import BACKENDS, HOUR, IMAGE, SandboxMode, SandboxSettings, Scope

T = TypeVar("T", bound=Struct)
PREFIX = "openclaw-sbx-"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\Z", re.IGNORECASE)


class PruneRules(Struct, frozen=True):
    """How long a sandbox may be idle and how old it may get, in seconds; 0 means for ever."""

    idle: float = 24 * HOUR
    age: float = 7 * 24 * HOUR


def merge_prune_rules(one: PruneRules, other: PruneRules) -> PruneRules:
    """The rules that keep a sandbox longer."""
    return PruneRules(
        idle=max(one.idle, other.idle) if one.idle and other.idle else 0,
        age=max(one.age, other.age) if one.age and other.age else 0,
    )


def prune_reason(made: float, used: float, now: float, limits: PruneRules) -> str:
    """Why a sandbox should be emptied; empty when not. By age only if it was not used within the last hour."""
    idle = now - used
    if limits.idle and idle >= limits.idle:
        return f"not used for {idle / HOUR:.0f} hours (sandbox.prune.idleHours)"
    if limits.age and now - made >= limits.age and idle >= HOUR:
        return f"{(now - made) / (24 * HOUR):.0f} days old (sandbox.prune.maxAgeDays)"
    return ""


class SandboxRules(Struct, frozen=True, kw_only=True):
    """The resolved sandbox settings of one agent."""

    mode: SandboxMode = "off"
    backend: str = "auto"
    scope: Scope = "agent"
    access: Access = "none"
    spawned_only: bool = True
    root: str = ""
    image: str = IMAGE
    prefix: str = PREFIX
    workdir: str = WORKDIR
    network: str = "none"
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""
    limits: SandboxLimits = SandboxLimits()
    binds: tuple[str, ...] = ()
    prune: PruneRules = PruneRules()


def resolve(defaults: SandboxSettings, own: SandboxSettings | None) -> SandboxRules:
    """Merges an agent's own settings over the defaults; what neither sets gets a safe value."""
    mine = own or SandboxSettings()
    given, inner = _over(mine, defaults), _over(mine.docker, defaults.docker)
    prune, setup = _over(mine.prune, defaults.prune), inner.setup_command or ""
    rules = SandboxRules(
        mode=given.mode or "off",
        backend=("auto" if given.backend is None else given.backend).strip().lower(),
        scope=given.scope or "agent",
        access=given.workspace_access or "none",
        spawned_only=given.session_tools_visibility != "all",
        root=given.workspace_root or "",
        image=inner.image or IMAGE,
        prefix=inner.container_prefix or PREFIX,
        workdir=inner.workdir or WORKDIR,
        network=(inner.network or "none").strip().lower(),
        user=inner.user or "",
        env={**defaults.docker.env, **mine.docker.env},
        setup=setup if isinstance(setup, str) else " && ".join(setup),
        limits=SandboxLimits(
            processes=512 if inner.pids_limit is None else inner.pids_limit,
            memory=SandboxLimits().memory if inner.memory is None else parse_size(inner.memory),
            disk=SandboxLimits().disk if inner.disk is None else parse_size(inner.disk, "disk"),
            cpus=inner.cpus or 0.0,
        ),
        binds=inner.binds or (),
        prune=PruneRules(
            idle=(24 if prune.idle_hours is None else prune.idle_hours) * HOUR,
            age=(7 if prune.max_age_days is None else prune.max_age_days) * 24 * HOUR,
        ),
    )
    _check(rules)
    return rules


def _over(own: T, defaults: T) -> T:
    """`own`, with the values of `defaults` where it sets none."""
    unset = [name for name in own.__struct_fields__ if getattr(own, name) is None]
    return structs.replace(own, **{name: getattr(defaults, name) for name in unset})


def _check(rules: SandboxRules) -> None:
    backend = {"bubblewrap": "process", "bwrap": "process"}.get(rules.backend, rules.backend)
    if backend not in BACKENDS:
        raise _bad("backend", f"{rules.backend!r} is not available: use process, docker, podman or auto")
    if rules.network == "host" or rules.network.startswith("container:"):
        why = "would give the sandbox this machine's network: use none or bridge"
        raise _bad("docker.network", f"{rules.network!r} {why}")
    if not rules.workdir.startswith("/") or posixpath.normpath(rules.workdir) in ("/", *_SYSTEM):
        raise _bad("docker.workdir", f"{rules.workdir!r} must be a directory of its own, such as /workspace")


def _bad(key: str, why: str) -> ConfigError:
    return ConfigError(f"sandbox.{key} {why}", path=f"agents.defaults.sandbox.{key}")


def parse_size(given: str | int, key: str = "memory") -> int:
    """Parses a size such as `1g` or `512m` into bytes."""
    if isinstance(given, int):
        return given
    found = _SIZE.match(given.strip())
    if found is None:
        raise ConfigError(f"{given!r} is not an amount of {key}: write 512m or 2g", path=f"sandbox.docker.{key}")
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " "))


def is_sandboxed(mode: SandboxMode, key: SessionKey) -> bool:
    """Whether a session is sandboxed."""
    return mode == "all" or (mode == "non-main" and not key.is_main)


def sandbox_name(rules: SandboxRules, key: SessionKey) -> str:
    """The name of a session's sandbox, shared as its scope says."""
    if rules.scope == "shared":
        return f"{rules.prefix}shared"
    if rules.scope == "agent":
        return f"{rules.prefix}agent-{key.agent}"
    slug = re.sub(r"[^a-z0-9]+", "-", key.rest.lower()).strip("-")[:32]
    return f"{rules.prefix}{key.agent}-{slug}-{hashlib.sha256(str(key).encode()).hexdigest()[:8]}"


_WIDTH: dict[Access, int] = {"none": 0, "ro": 1, "rw": 2}


def escape_reason(child: SandboxRules, child_boxed: bool, parent: SandboxRules, parent_boxed: bool) -> str:
    """Why a sub-agent would escape its parent's sandbox; empty when it does not."""
    if not parent_boxed:
        return ""
    if not child_boxed:
        return "the starter is in a sandbox and the sub-agent would not be"
    if _WIDTH[child.access] > _WIDTH[parent.access]:
        return f"its sandbox would have workspaceAccess {child.access}, the starter's has {parent.access}"
    if child.network != "none" and parent.network == "none":
        return "its sandbox would have a network, the starter's has none"
    return ""


_SYSTEM = ("/", *(f"/{name}" for name in "bin boot dev etc lib lib64 proc root run sbin sys usr var".split()))
_SECRET_PLACES = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".netrc", ".password-store")
_TAKEN = (WORKDIR, AGENT_MOUNT, RUNTIME, TMP, SANDBOX_HOME)


def mounts(binds: Sequence[str], *, home: str, state: str) -> tuple[Mount, ...]:
    """The configured mounts, each checked; the caller checks link targets again."""
    return tuple(_bind(text, home, state) for text in binds)


def _bind(text: str, home: str, state: str) -> Mount:
    parts = text.split(":")
    if len(parts) not in (2, 3) or (len(parts) == 3 and parts[2] not in ("ro", "rw")):
        raise _bad_bind(f"{text!r} is not HOST:INSIDE:ro or HOST:INSIDE:rw")
    source = posixpath.normpath(home + parts[0][1:] if parts[0] == "~" or parts[0].startswith("~/") else parts[0])
    target = posixpath.normpath(parts[1])
    if not source.startswith("/") or not target.startswith("/"):
        raise _bad_bind(f"{text!r} needs absolute paths")
    if why := refused_source(source, home=home, state=state):
        raise _bad_bind(f"{source} {why}")
    if target in _SYSTEM or target in _TAKEN or target.startswith((f"{RUNTIME}/", "/proc/", "/dev/", "/etc/")):
        raise _bad_bind(f"{target} is taken inside: choose another")
    return Mount(source, target, parts[2:] == ["rw"])


def _bad_bind(why: str) -> ConfigError:
    return ConfigError(f"sandbox.docker.binds: {why}", path="sandbox.docker.binds")


def refused_source(source: str, *, home: str, state: str) -> str:
    """Why a directory must not be mounted in a sandbox; empty when it may."""
    if source.endswith(("docker.sock", "podman.sock", "containerd.sock")):
        return "is the socket of an engine: whoever has it has this machine"
    if source in _SYSTEM or source.startswith(("/proc/", "/sys/", "/dev/", "/run/", "/var/run/", "/etc/", "/boot/")):
        return "belongs to the system"
    if source == home or home.startswith(f"{source}/"):
        return "holds your whole home: name the directories that are needed"
    if _within(source, state) or _within(state, source):
        return "holds the assistant's own state and credentials"
    if any(_within(source, f"{home}/{place}") for place in _SECRET_PLACES):
        return "holds credentials"
    return ""


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")
