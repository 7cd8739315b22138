"""Diagnoses an installation, and repairs what can be repaired without losing anything."""

import asyncio
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import apsw
import msgspec
from msgspec import Struct

from openclaw.agent.settings import agent_ids, resolve_agent
from openclaw.config.check import ConfigProblem
from openclaw.config.edit import Editor
from openclaw.config.load import LoadedConfig, load, problems_of, read
from openclaw.config.settings import StateStoreSettings
from openclaw.core.errors import AuthFailed, ConfigError, Conflict, InvalidRequest, NotFound, OpenClawError, StateError
from openclaw.core.progress import Report, no_report, reported
from openclaw.core.text import utf16_length
from openclaw.gateway import exposure as gateway_exposure
from openclaw.gateway.cluster.setups import told_differences
from openclaw.gateway.exposure import LEAST_SECRET, ExposureOptions, decide
from openclaw.gateway.running import running_gateway
from openclaw.gateway.state import CRASHES, CrashHistory, judge, open_server
from openclaw.gateway.status import service_manager
from openclaw.models import registry
from openclaw.models.model_set import build_model_set
from openclaw.models.profiles import ProfileStore
from openclaw.process.environment import Environment, Home
from openclaw.protocol.auth import secret_kind
from openclaw.sessions.files import load as load_transcript
from openclaw.sessions.transcript import build_context
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.workspace.files import load as load_workspace
from openclaw.workspace.seed import workspace_of

if TYPE_CHECKING:
    from openclaw.storage.postgres import ServerFacts

OLDEST_SERVER = 140_000
"""PostgreSQL 14, in its own notation."""
SLOW_TRIP_MS = 20.0
Severity = Literal["critical", "warn", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


class DoctorFix(Struct, frozen=True):
    """A repair: a description of what it will do, and the function that does it."""

    plan: str
    apply: Callable[[], object]
    ends_gateway: bool = False
    """The gateway cannot do it itself: run it from a terminal."""


class DoctorFinding(Struct, frozen=True):
    """One problem or piece of advice."""

    id: str
    severity: Severity
    title: str
    detail: str = ""
    remediation: str = ""
    fix: DoctorFix | None = None

    def document(self) -> dict[str, Any]:
        told: dict[str, Any] = {"checkId": self.id, "severity": self.severity, "title": self.title}
        told |= {name: text for name in ("detail", "remediation") if (text := getattr(self, name))}
        if self.fix is not None:
            told |= {"plan": self.fix.plan, "endsGateway": self.fix.ends_gateway}
        return {**told, "fixable": self.fix is not None}


class DoctorContext(Struct, frozen=True, kw_only=True):
    """What the checks look at."""

    environment: Environment
    loaded: LoadedConfig | None
    """None when neither the configuration nor the last good one can be used."""
    problems: tuple[ConfigProblem, ...]
    """Why the file itself cannot be used."""
    now: int

    @property
    def home(self) -> Home:
        return self.environment.home


Check = Callable[[DoctorContext], Iterable[DoctorFinding]]


def collect_context(environment: Environment) -> DoctorContext:
    """Reads everything the checks need, once."""
    loaded: LoadedConfig | None = None
    try:
        loaded = load(environment.home, environment.environ)
        problems = loaded.issues
    except ConfigError as error:
        problems = problems_of(error)
    return DoctorContext(environment=environment, loaded=loaded, problems=problems, now=round(time.time() * 1000))


def run_checks(scene: DoctorContext, report: Report = no_report) -> list[DoctorFinding]:
    """Everything the checks find, the worst first."""
    found = [finding for check in reported(CHECKS, "checking", report) for finding in check(scene)]
    return [finding for severity in SEVERITIES for finding in found if finding.severity == severity]


def repair(findings: Iterable[DoctorFinding]) -> Iterator[tuple[DoctorFinding, str]]:
    """Applies each repair; yields what went wrong with it, or nothing."""
    for finding in findings:
        if finding.fix is None:
            continue
        try:
            finding.fix.apply()
        except OpenClawError as error:
            yield finding, error.message
        except OSError as error:
            yield finding, f"{error.filename or ''}: {error.strerror}".lstrip(": ")
        else:
            yield finding, ""


def report(scene: DoctorContext, findings: Sequence[DoctorFinding]) -> dict[str, Any]:
    """Context and findings as one document."""
    counts = summary(findings)
    told = [finding.document() for finding in findings]
    return {"ok": not counts["critical"], "ts": scene.now, "summary": counts, "findings": told}


def apply_repair(findings: Sequence[DoctorFinding], check_id: str, plan: str) -> None:
    """Applies one repair, if its plan is still the one that was agreed to."""
    found = next((each for each in findings if each.id == check_id and each.fix and each.fix.plan == plan), None)
    if found is None:
        raise Conflict(f"{check_id} is not what it was when you looked: look again")
    if found.fix is not None and found.fix.ends_gateway:
        raise InvalidRequest("the gateway cannot do this to itself: run `openclaw doctor --fix` in a terminal")
    for _, error in repair([found]):
        if error:
            raise StateError(f"not done: {error}")


def summary(findings: Sequence[DoctorFinding]) -> dict[str, int]:
    return {severity: sum(each.severity == severity for each in findings) for severity in SEVERITIES}


LOW_SPACE = 200 << 20
TRANSCRIPTS = 300
"""Only the most recent ones are read."""


# The checks.


def configuration(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the configuration file can be used as it is."""
    home = scene.home
    if scene.problems:
        fix, good = None, read(home.last_good) if home.last_good.exists() else None
        advice = "correct the file, or take an older one: openclaw config apply --allow-clobber <file>"
        if scene.loaded is not None:
            advice = "correct the file; until then the last configuration that worked is used"
            if good is not None and good.exists:
                backup = f"{home.config.name}.bak"
                plan = f"put the last configuration that worked back (the present file is kept as {backup})"
                editor = Editor(home, scene.environment.environ, "doctor --fix")
                apply = partial(editor.apply, good.text, allow_clobber=True)
                fix = DoctorFix(plan, apply)
        detail = "\n".join(map(str, scene.problems))
        yield DoctorFinding("config.invalid", "critical", f"{home.config} cannot be used", detail, advice, fix)
    for warning in scene.loaded.warnings if scene.loaded and not scene.problems else ():
        yield DoctorFinding("config.warning", "warn", str(warning))


def permissions(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether other users of this machine can read private files."""
    if sys.platform == "win32" or not scene.home.state.exists():
        return
    loose = [(path, mode) for path, mode in _private(scene) if mode & 0o077]
    if not loose:
        return
    severity: Severity = "critical" if any(mode & 0o002 for _, mode in loose) else "warn"
    title = f"{len(loose)} of our files and directories are open to other users of this machine"
    detail = "\n".join(f"{stat.S_IMODE(mode):04o} {path}" for path, mode in loose[:20])
    fix = DoctorFix("take all rights of others away (directories 700, files 600)", partial(_tighten, loose))
    yield DoctorFinding("fs.permissions", severity, title, detail, "directories 700, files 600", fix)


def _private(scene: DoctorContext) -> Iterator[tuple[Path, int]]:
    """Private files with their mode; links are not followed, the workspace is the user's own."""
    state, config = scene.home.state, scene.home.config
    named = [state, config, *config.parent.glob(f"{config.name}.*"), state / ".env"]
    for folder in ("credentials", "state", "logs", "agents"):
        for root, folders, files in os.walk(state / folder):
            folders[:] = [name for name in folders if name != "workspace"]
            named += [Path(root), *(Path(root) / name for name in files)]
    for path in named:
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            yield path, mode


def _tighten(paths: Sequence[tuple[Path, int]]) -> None:
    for path, mode in paths:
        path.chmod(stat.S_IMODE(mode) & 0o700)


def state_directory(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the state directory is writable."""
    state = scene.home.state
    if not state.exists():
        yield DoctorFinding("state.missing", "info", f"{state} does not exist yet", remediation="openclaw setup")
        return
    if not os.access(state, os.W_OK | os.X_OK):
        advice = "check its owner and permissions"
        yield DoctorFinding("state.readonly", "critical", f"{state} cannot be written", remediation=advice)
    free = shutil.disk_usage(state).free
    if free < LOW_SPACE:
        title = f"only {free >> 20} MiB are free where {state} is"
        advice = "make room: a full disk stops every conversation"
        yield DoctorFinding("state.space", "warn", title, remediation=advice)


def database(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the database is intact and of a version we know."""
    path = scene.home.state / "state" / "openclaw-py.sqlite"
    if not path.exists():
        return
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(2_000)
            version = int(str(connection.pragma("user_version")))
            said = [str(row[0]) for row in connection.execute("PRAGMA quick_check(5)")]
        finally:
            connection.close()
    except apsw.Error as error:
        said, version = [str(error)], 0
    known = STATE_MIGRATIONS[-1].version
    if version > known:
        title = f"{path} was written by a newer OpenClaw (schema {version}; this one knows {known})"
        yield DoctorFinding("db.newer", "critical", title, remediation="upgrade this program")
    elif 0 < version < known and (older := running_gateway(scene.home.state)) is not None:
        title = f"the running gateway (pid {older.pid}) is older than this program (schema {version})"
        detail = "commands of this program that need the database refuse to change it under a running gateway"
        advice = "openclaw gateway stop, then openclaw gateway start"
        yield DoctorFinding("gateway.older", "warn", title, detail, advice)
    if said != ["ok"]:
        advice = "stop the gateway and move the file away: sessions are rebuilt from their transcripts"
        yield DoctorFinding("db.damaged", "critical", f"{path} is damaged", "\n".join(said), advice)


def server(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the server that `store.url` names can be used, and has room for us."""
    store = scene.loaded.config.store if scene.loaded is not None else StateStoreSettings()
    if not store.url:
        return
    try:
        about, nodes = asyncio.run(_inspect_server(store))
    except StateError as error:
        yield DoctorFinding("store.unusable", "critical", error.message)
        return
    place = f"the database at {about.place}"
    if about.version < OLDEST_SERVER:
        title = f"{place} is PostgreSQL {about.release}: too old"
        yield DoctorFinding("store.old", "critical", title, remediation="use PostgreSQL 14 or later")
    if about.read_only or not about.may_create:
        title = f"{place} is read-only" if about.read_only else f"{place}: schema {about.schema} is not ours to change"
        advice = "give the primary, and a user who may create tables there, in store.url"
        yield DoctorFinding("store.rights", "critical", title, remediation=advice)
    if about.latency_ms > SLOW_TRIP_MS:
        title = f"{place} is {about.latency_ms:.0f} ms away"
        advice = "put it nearer: a turn makes some twenty trips to it"
        yield DoctorFinding("store.slow", "warn", title, remediation=advice)
    if about.max_connections - about.connections < store.pool:
        title = f"{place} has {about.connections} of {about.max_connections} connections in use"
        advice = f"raise max_connections, or lower store.pool (now {store.pool})"
        yield DoctorFinding("store.pool", "warn", title, remediation=advice)
    for each in told_differences(nodes):
        what, _, advice = each.rpartition(". ")
        yield DoctorFinding("cluster.differs", "warn", f"nodes are not set up alike: {what}", remediation=advice)


async def _inspect_server(store: StateStoreSettings) -> "tuple[ServerFacts, dict[str, Any]]":
    """The facts of the server, and what the nodes that share it tell of themselves."""
    db = await open_server(store)
    try:
        made = await db.read("SELECT to_regclass('cluster_nodes') IS NOT NULL AS made")
        rows = await db.read("SELECT name, figures FROM cluster_nodes WHERE guest = 0") if made[0]["made"] else ()
        return await db.inspect(), {row["name"]: msgspec.json.decode(row["figures"]) for row in rows}
    finally:
        await db.close()


def transcripts(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether transcripts were cut short; they are repaired at their next use."""
    paths = list((scene.home.state / "agents").glob("*/sessions/*.jsonl"))
    newest = sorted(paths, key=os.path.getmtime, reverse=True)[:TRANSCRIPTS]
    cut: list[str] = []
    unreadable: list[str] = []
    for path in newest:
        try:
            loaded = load_transcript(path)
        except (NotFound, StateError) as error:
            unreadable.append(error.message)
            continue
        problems = (*loaded.problems, *build_context(loaded.entries).problems)
        cut += [f"{path.name}: {p.kind}, {p.detail}" for p in problems if p.kind in ("torn", "unanswered")]
        unreadable += [f"{path.name}: {p.detail}" for p in problems if p.kind == "unreadable"]
    if cut:
        title, advice = f"{len(cut)} conversations were cut short", "nothing to do: they are mended when they go on"
        yield DoctorFinding("sessions.cut_short", "info", title, "\n".join(cut[:20]), advice)
    if unreadable:
        title = f"{len(unreadable)} lines of transcripts cannot be read"
        advice = "the rest of each conversation is used; restore the files from a backup to get the lines back"
        yield DoctorFinding("sessions.unreadable", "warn", title, "\n".join(unreadable[:20]), advice)


def models(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether every agent has a model that can be called."""
    if scene.loaded is None:
        return
    config = scene.loaded.config
    for agent_id in agent_ids(config.agents):
        agent = resolve_agent(config.agents, agent_id)
        try:
            situation = build_model_set(
                config.models,
                registry.load(),
                environ=scene.loaded.variables,
                probe=tuple,
                auth=config.auth,
                stored=ProfileStore.of_agent(scene.home.state / "agents" / agent_id / "agent").load(),
                primary=agent.primary,
                fallbacks=agent.fallbacks,
                aliases=agent.aliases,
            )
            reference = situation.default
            situation.credentials(reference, scene.now)
        except (AuthFailed, ConfigError, InvalidRequest, NotFound, StateError) as error:
            yield DoctorFinding("models.auth", "warn", f"agent {agent_id}: {error.message}")
            continue
        if reference.provider == registry.OFFLINE:
            title = f"agent {agent_id} has no model: {situation.pick.why}"
            advice = "set a key, for example ANTHROPIC_API_KEY, or start a local model server"
            yield DoctorFinding("models.none", "warn", title, remediation=advice)


def execution(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the assistant may run any command."""
    if scene.loaded is None or scene.loaded.config.tools.exec.security != "full":
        return
    asks = scene.loaded.config.tools.exec.ask
    severity: Severity = "warn" if asks == "always" else "critical"
    title = f"tools.exec.security is full with ask {asks}: the assistant may run every command"
    advice = "openclaw config unset tools.exec.security"
    yield DoctorFinding("tools.exec.security_full_configured", severity, title, remediation=advice)


def workspaces(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the agents' files fit into the prompt."""
    if scene.loaded is None:
        return
    agents = scene.loaded.config.agents
    for agent_id in agent_ids(agents):
        folder = workspace_of(agents, agent_id, scene.environment)
        if not folder.is_dir():
            continue
        files = load_workspace(folder)
        sizes = {file.name: file.raw_chars or utf16_length(file.content) for file in files}
        long = [f"{name}: {size}" for name, size in sizes.items() if size > agents.defaults.bootstrap_max_chars]
        total = sum(sizes.values())
        if long or total > agents.defaults.bootstrap_total_max_chars:
            title = f"agent {agent_id}: workspace files are longer than the prompt takes, and are cut"
            detail = "\n".join((*long, f"together: {total}"))
            advice = "shorten them, or raise agents.defaults.bootstrapMaxChars and bootstrapTotalMaxChars"
            yield DoctorFinding("workspace.too_long", "warn", title, detail, advice)
        for file in files:
            if file.problem:
                yield DoctorFinding("workspace.unreadable", "warn", f"{file.path}: {file.problem}")


def gateway(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the gateway could start, and who could connect."""
    if scene.loaded is None:
        return
    try:
        exposure = decide(scene.loaded.config.gateway, scene.loaded.variables, ExposureOptions())
    except ConfigError as error:
        yield DoctorFinding("gateway.bind_no_auth", "critical", error.message)
        return
    if exposure.mode == "none":
        title = "the gateway asks nobody for a credential: every program of this machine has full access"
        advice = "openclaw config unset gateway.auth.mode"
        yield DoctorFinding("gateway.loopback_no_auth", "warn", title, remediation=advice)
    if exposure.secret is not None and len(exposure.secret.reveal()) < LEAST_SECRET:
        kind = secret_kind(exposure.mode)
        title = f"the gateway {kind} has fewer than {LEAST_SECRET} characters"
        yield DoctorFinding(f"gateway.{kind}_too_short", "warn", title, remediation=f"set a longer gateway.auth.{kind}")
    if running_gateway(scene.home.state) is None and not gateway_exposure.is_port_free(exposure.hosts, exposure.port):
        pid = gateway_exposure.port_owner(exposure.port)
        title = f"port {exposure.port} is taken by {f'process {pid}' if pid else 'another program'}"
        advice = "stop that program, or set gateway.port"
        yield DoctorFinding("gateway.port_in_use", "warn", title, remediation=advice)
    verdict = judge(CrashHistory(scene.home.state).read(), scene.now)
    if verdict.crashes >= CRASHES:
        title = f"the gateway ended badly {verdict.crashes} times within five minutes"
        yield DoctorFinding("gateway.crashes", "warn", title, remediation="openclaw logs --level error")


def encryption(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the gateway's certificate is valid, and for how much longer; it renews its own."""
    if scene.loaded is None or not scene.loaded.config.gateway.tls.enabled:
        return
    settings = scene.loaded.config.gateway.tls
    if not (settings.cert_path or settings.key_path):
        return
    from openclaw.gateway.http.certificates import SOON, load_certificate

    now = datetime.fromtimestamp(scene.now / 1000, UTC)
    try:
        shown = load_certificate(settings, scene.home.state, (), now)
    except ConfigError as error:
        yield DoctorFinding("gateway.tls", "critical", error.message)
        return
    if shown and shown.expires - now < SOON:
        title = f"the certificate of the gateway expires on {shown.expires:%Y-%m-%d}"
        advice = "renew it, then run openclaw gateway restart"
        yield DoctorFinding("gateway.tls_expires", "warn", title, remediation=advice)


def service(scene: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether the installed service starts the present program."""
    services = service_manager(scene.environment)
    state = services.state()
    if state.drifted:
        title = f"{state.path} is not what it would be if it were installed now"
        fix = DoctorFix(f"write {state.path} anew and restart the service", services.install, ends_gateway=True)
        yield DoctorFinding("service.drifted", "warn", title, remediation="openclaw gateway install", fix=fix)


CHECKS: tuple[Check, ...] = (
    configuration,
    permissions,
    state_directory,
    database,
    server,
    transcripts,
    models,
    execution,
    workspaces,
    gateway,
    encryption,
    service,
)
