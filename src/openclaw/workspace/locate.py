"""Computes an agent's workspace directory. Pure: no file access."""

from collections.abc import Callable

from msgspec import Struct

from openclaw.core.keys import normalise_agent


class WorkspaceRoots(Struct, frozen=True, kw_only=True):
    """Home and state directory, and the two environment variables that matter."""

    home: str
    state_dir: str
    profile: str = ""
    """`OPENCLAW_PROFILE`."""
    override: str = ""
    """`OPENCLAW_WORKSPACE_DIR`."""


class AgentDirectory(Struct, frozen=True, kw_only=True):
    """The configured workspace of one agent."""

    id: str
    workspace: str | None = None
    default: bool = False


def _never(_: str) -> bool:
    return False


def locate(
    agent: AgentDirectory,
    places: WorkspaceRoots,
    *,
    default_workspace: str | None = None,
    exists: Callable[[str], bool] = _never,
) -> str:
    """The workspace of `agent`; `default_workspace` is `agents.defaults.workspace`."""
    agent_id = normalise_agent(agent.id)
    if agent.workspace and agent.workspace.strip():
        return expand(agent.workspace, places.home)
    if not agent.default:
        return join(places.state_dir, f"workspace-{agent_id}")
    if default_workspace and default_workspace.strip():
        return expand(default_workspace, places.home)
    return default_directory(places, exists)


def default_directory(places: WorkspaceRoots, exists: Callable[[str], bool] = _never) -> str:
    """The default agent's workspace when none is configured."""
    if places.override.strip():
        return expand(places.override, places.home)
    profile = places.profile.strip()
    if not profile or profile.lower() == "default":
        return join(places.state_dir, "workspace")
    ours = join(places.state_dir, f"workspace-{normalise_agent(profile)}")
    # The other layout has a state directory per profile; an existing workspace there stays in use.
    other = join(places.home, f".openclaw-{normalise_agent(profile)}/workspace")
    return other if exists(other) and not exists(ours) else ours


def expand(path: str, home: str) -> str:
    """`path` with a leading `~` replaced by `home`."""
    path = path.strip()
    if path == "~":
        return home
    return join(home, path[2:]) if path.startswith(("~/", "~\\")) else path


def join(base: str, rest: str) -> str:
    return f"{base.rstrip('/')}/{rest}" if base != "/" else f"/{rest}"
