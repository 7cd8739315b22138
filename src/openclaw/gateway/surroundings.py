"""What this process was started with and where its things are: the part of the composition a look needs.

Commands that only look import this and not `app`, which builds everything.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from openclaw.config.paths import Home, locate
from openclaw.core.errors import StateError

if TYPE_CHECKING:
    from openclaw.agent.settings import AgentsSettings
    from openclaw.core.clock import Clock
    from openclaw.sessions.index import SessionIndex
    from openclaw.store.db import Database


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What the process was started with."""

    environ: Mapping[str, str]
    home_dir: Path
    cwd: Path

    @classmethod
    def of_process(cls) -> "Environment":
        return cls(environ=dict(os.environ), home_dir=Path.home(), cwd=Path.cwd())

    @property
    def home(self) -> Home:
        return locate(self.environ, self.home_dir, self.cwd)


def workspace_of(agents: "AgentsSettings", agent_id: str, surroundings: Environment) -> Path:
    """The directory of an agent's files, whether or not it is there yet."""
    from openclaw.turns import agents as agent_views
    from openclaw.workspace import locate as workspaces

    agent = agent_views.view(agents, agent_id)
    environ = surroundings.environ
    return Path(
        workspaces.locate(
            workspaces.AgentDirectory(id=agent.id, workspace=agent.workspace, default=agent.is_default),
            workspaces.WorkspaceRoots(
                home=str(surroundings.home_dir),
                state_dir=str(surroundings.home.state),
                # Without a state directory of its own, a profile already has one that is named after it.
                profile=environ.get("OPENCLAW_PROFILE", "") if "OPENCLAW_STATE_DIR" in environ else "",
                override=environ.get("OPENCLAW_WORKSPACE_DIR", ""),
            ),
            default_workspace=agents.defaults.workspace,
            exists=os.path.isdir,
        )
    )


@asynccontextmanager
async def state(home: Home, clock: "Clock") -> "AsyncIterator[tuple[Database, SessionIndex]]":
    """The database and the list of sessions, rebuilt from the transcripts when it is new."""
    from openclaw.sessions.index import SessionIndex
    from openclaw.store.migrations import STATE
    from openclaw.store.sqlite import Sqlite

    # A name of our own: an existing home has an openclaw.sqlite that is not ours to touch.
    admit = partial(_nobody_needs_the_old_one, home.state)
    db = await Sqlite.open(home.state / "state" / "openclaw-py.sqlite", STATE, admit)
    try:
        index = SessionIndex(db, home.state, clock)
        if not await db.read("SELECT 1 FROM transcripts LIMIT 1"):
            await index.rebuild()
        yield db, index
    finally:
        await db.close()


def _nobody_needs_the_old_one(state: Path, found: int, known: int) -> None:
    """A gateway that still runs reads the database as it was when it started: it must not change under it."""
    from openclaw.gateway.lock import running

    gateway = running(state)
    if gateway is None or gateway.pid == os.getpid():
        return
    raise StateError(
        f"the running gateway (pid {gateway.pid}, version {gateway.version or 'unknown'}) is older than this program:"
        f" its database has schema {found}, this program needs {known}. Nothing was changed. Run openclaw gateway stop,"
        " then openclaw gateway start, and the gateway is this program too; or use the program it was started with."
    )


def local_timezone(environ: Mapping[str, str]) -> str:
    """The machine's IANA time zone, or nothing when it does not say."""
    named = environ.get("TZ", "").lstrip(":")
    if named and "/" in named and not named.startswith("/"):
        return named
    try:
        target = os.path.realpath("/etc/localtime")
    except OSError:
        return ""
    return target.partition("/zoneinfo/")[2]
