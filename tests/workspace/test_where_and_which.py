"""Which directory, and which files for whom."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclaw.agent.settings import AgentsSettings
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import parse_session_key
from openclaw.process.environment import Environment
from openclaw.workspace.budget import kind_of, merge, select_files
from openclaw.workspace.files import WorkspaceFile
from openclaw.workspace.seed import workspace_of


def where(home: Path, agent: str = "main", *, default: str | None = None, listed: Any = (), **more: str) -> str:
    """The workspace of an agent, relative to the home directory; `more` are environment variables."""
    agents = msgspec.convert({"defaults": {"workspace": default}, "list": listed}, AgentsSettings)
    environment = Environment(environ=more, home_dir=home, cwd=home)
    return str(workspace_of(agents, agent, environment).relative_to(home))


def test_the_default_agent_lives_in_the_default_directory(tmp_path):
    assert where(tmp_path) == ".openclaw/workspace"
    assert where(tmp_path, default="~/house") == "house"


def test_an_agents_own_workspace_wins(tmp_path):
    listed = ({"id": "main", "default": True, "workspace": " ~/mine "}, {"id": "x", "workspace": "~"})
    assert where(tmp_path, default="/house", listed=listed) == "mine"
    assert where(tmp_path, "x", listed=listed) == "."


def test_other_agents_live_beside_it(tmp_path):
    listed = ({"id": "main", "default": True}, {"id": "Work"})
    assert where(tmp_path, "work", default="/house", listed=listed) == ".openclaw/workspace-work"


@pytest.mark.parametrize(("profile", "name"), [("", ""), ("default", ""), ("Dev", "-dev")])
def test_a_profile_has_a_directory_of_its_own(tmp_path, profile, name):
    variables = {"OPENCLAW_STATE_DIR": ".openclaw", "OPENCLAW_PROFILE": profile}
    assert where(tmp_path, **variables) == f".openclaw/workspace{name}"


def test_the_workspaces_of_profiles_are_side_by_side(tmp_path):
    assert where(tmp_path, OPENCLAW_PROFILE="Work") == ".openclaw/workspace-work"
    (tmp_path / ".openclaw-Work" / "workspace").mkdir(parents=True)
    assert where(tmp_path, OPENCLAW_PROFILE="Work") == ".openclaw-Work/workspace"


def test_the_environment_can_name_the_directory(tmp_path):
    assert where(tmp_path, OPENCLAW_WORKSPACE_DIR="~/env", OPENCLAW_PROFILE="dev") == "env"


def test_another_layouts_directory_is_used_only_if_it_is_the_only_one(tmp_path):
    variables = {"OPENCLAW_STATE_DIR": ".openclaw", "OPENCLAW_PROFILE": "dev"}
    (tmp_path / ".openclaw-dev" / "workspace").mkdir(parents=True)
    assert where(tmp_path, **variables) == ".openclaw-dev/workspace"
    (tmp_path / ".openclaw" / "workspace-dev").mkdir(parents=True)
    assert where(tmp_path, **variables) == ".openclaw/workspace-dev"


@pytest.mark.parametrize("bad", ["", "  ", "../up", "a b"])
def test_a_bad_agent_id_is_an_error(tmp_path, bad):
    with pytest.raises(InvalidRequest, match="is not an agent id"):
        where(tmp_path, bad)


NAMES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md", "MEMORY.md")
SHARED = tuple(name for name in NAMES if name not in ("USER.md", "MEMORY.md"))
FILES = tuple(WorkspaceFile(name=name, path=f"/w/{name}", inode=f"1:{n}") for n, name in enumerate(NAMES))


def chosen(key: str, **more: object) -> list[str]:
    return [file.name for file in select_files(FILES, kind_of(parse_session_key(key)), **more)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("agent:main:main", list(NAMES)),
        ("agent:main:telegram:direct:1", list(NAMES)),
        ("agent:main:telegram:group:1", list(SHARED)),
        ("agent:main:discord:channel:1", list(SHARED)),
        ("agent:main:subagent:1", ["AGENTS.md", "TOOLS.md"]),
        ("agent:main:cron:job:run:1", ["AGENTS.md", "TOOLS.md"]),
    ],
)
def test_each_session_sees_its_files(key, names):
    assert chosen(key) == names


def test_heartbeats_off_means_no_checklist():
    assert "HEARTBEAT.md" not in chosen("agent:main:main", heartbeats=False)


def test_a_light_heartbeat_sees_only_its_checklist():
    kind = kind_of(parse_session_key("agent:main:main"), light=True)
    assert [file.name for file in select_files(FILES, kind)] == ["HEARTBEAT.md"]


def test_the_channel_can_say_that_it_is_a_group():
    assert kind_of(parse_session_key("agent:main:main"), group=True) == "group"


@pytest.mark.parametrize(
    "smuggled",
    [
        WorkspaceFile(name="NOTES.md", path="/w/MEMORY.md"),
        WorkspaceFile(name="NOTES.md", path="/w/NOTES.md", inode="1:7"),
        WorkspaceFile(name="memory.md", path="/w/x/Memory.MD"),
        WorkspaceFile(name="MEMORY.md", path="/elsewhere/notes.md"),
    ],
)
def test_a_hook_cannot_bring_memory_back_into_a_group(smuggled):
    files, _ = merge(select_files(FILES, "group"), [smuggled])
    assert select_files(files, "group", known=FILES) == select_files(FILES, "group")


def test_a_hook_cannot_pass_memory_off_as_tools_for_a_sub_agent():
    disguised = WorkspaceFile(name="TOOLS.md", path="/w/TOOLS.md", inode="1:7")
    files, _ = merge(select_files(FILES, "subagent"), [disguised])
    assert [file.name for file in select_files(files, "subagent", known=FILES)] == ["AGENTS.md"]


def test_hooks_replace_and_add_files_and_broken_entries_are_named():
    swap = WorkspaceFile(name="SOUL.md", path="/w/SOUL.md", content="pirate")
    more = WorkspaceFile(name="EXTRA.md", path="/w/EXTRA.md")
    files, warnings = merge(FILES, [swap, more, WorkspaceFile(name="X.md", path=" ")])
    assert [file.name for file in files] == [*NAMES, "EXTRA.md"] and files[1] is swap
    assert warnings == ["a hook added a workspace file without a path; it was skipped"]
