"""Which directory, and which files for whom."""

import pytest
from msgspec import structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import parse_session_key
from openclaw.workspace.budget import kind_of, merge, select_files
from openclaw.workspace.files import WorkspaceFile
from openclaw.workspace.locate import AgentDirectory, WorkspaceRoots, locate

PLACES = WorkspaceRoots(home="/home/ada", state_dir="/home/ada/.openclaw")
MAIN = AgentDirectory(id="main", default=True)


def test_the_default_agent_lives_in_the_default_directory():
    assert locate(MAIN, PLACES) == "/home/ada/.openclaw/workspace"
    assert locate(MAIN, PLACES, default_workspace="~/house") == "/home/ada/house"


def test_an_agents_own_workspace_wins():
    own = AgentDirectory(id="main", default=True, workspace=" ~/mine ")
    assert locate(own, PLACES, default_workspace="/house") == "/home/ada/mine"
    assert locate(AgentDirectory(id="x", workspace="~"), PLACES) == "/home/ada"


def test_other_agents_live_beside_it():
    assert locate(AgentDirectory(id="Work"), PLACES, default_workspace="/house") == "/home/ada/.openclaw/workspace-work"


@pytest.mark.parametrize(("profile", "name"), [("", ""), ("default", ""), ("Dev", "-dev")])
def test_a_profile_has_a_directory_of_its_own(profile, name):
    assert locate(MAIN, structs.replace(PLACES, profile=profile)) == f"/home/ada/.openclaw/workspace{name}"


def test_the_environment_can_name_the_directory():
    assert locate(MAIN, structs.replace(PLACES, override="~/env", profile="dev")) == "/home/ada/env"


def test_another_layouts_directory_is_used_only_if_it_is_the_only_one():
    places = structs.replace(PLACES, profile="dev")
    other = "/home/ada/.openclaw-dev/workspace"
    assert locate(MAIN, places, exists=lambda path: path == other) == other
    assert locate(MAIN, places, exists=lambda path: True) == "/home/ada/.openclaw/workspace-dev"


@pytest.mark.parametrize("bad", ["", "  ", "../up", "a b"])
def test_a_bad_agent_id_is_an_error(bad):
    with pytest.raises(InvalidRequest, match="is not an agent id"):
        locate(AgentDirectory(id=bad), PLACES)
    with pytest.raises(InvalidRequest):
        locate(AgentDirectory(id=bad, workspace="/w"), PLACES)


NAMES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md", "MEMORY.md")
FILES = tuple(WorkspaceFile(name=name, path=f"/w/{name}", inode=f"1:{n}") for n, name in enumerate(NAMES))


def chosen(key: str, **more: object) -> list[str]:
    return [file.name for file in select_files(FILES, kind_of(parse_session_key(key)), **more)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("agent:main:main", list(NAMES)),
        ("agent:main:telegram:direct:1", list(NAMES)),
        ("agent:main:telegram:group:1", list(NAMES[:-1])),
        ("agent:main:discord:channel:1", list(NAMES[:-1])),
        ("agent:main:subagent:1", ["AGENTS.md", "TOOLS.md"]),
        ("agent:main:cron:job:run:1", ["AGENTS.md", "TOOLS.md"]),
    ],
)
def test_each_session_sees_its_files(key, names):
    assert chosen(key) == names


def test_heartbeats_off_means_no_checklist():
    assert "HEARTBEAT.md" not in chosen("agent:main:main", heartbeats=False)


def test_a_light_heartbeat_sees_only_its_checklist():
    kind = kind_of(parse_session_key("agent:main:main"), light_heartbeat=True)
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
