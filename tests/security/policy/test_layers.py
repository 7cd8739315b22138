"""Which tools remain, and who removed the rest."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.security.settings import AgentToolSettings
from openclaw.security.tool_policy import (
    ALIASES,
    GROUPS,
    PROFILES,
    RemovedTool,
    ToolLayer,
    ToolRequest,
    apply_layers,
    build_layers,
)
from openclaw.tools.settings import ToolsSettings

ALL = tuple(sorted({name for group in GROUPS.values() for name in group if "*" not in name}))
FILES = ("read", "write", "edit", "apply_patch", "grep", "find", "ls")


def kept(*layers: ToolLayer, tools: tuple[str, ...] = ALL) -> set[str]:
    return set(apply_layers(tools, layers)[0])


def layer(allow: tuple[str, ...] | None = None, deny: tuple[str, ...] = ()) -> ToolLayer:
    return ToolLayer(name="test", allow=allow, deny=deny)


def profile_layers(profile: str, *also: str) -> list[ToolLayer]:
    settings = msgspec.convert({"profile": profile, "alsoAllow": also}, ToolsSettings)
    return build_layers(settings, AgentToolSettings(), ToolRequest())


@pytest.mark.parametrize(
    ("profile", "tools"),
    [
        ("minimal", {"session_status", "gateway"}),
        (
            "messaging",
            {
                "message",
                "gateway",
                "sessions_list",
                "sessions_history",
                "sessions_search",
                "sessions_send",
                "sessions_spawn",
                "sessions_yield",
                "subagents",
                "session_status",
            },
        ),
        ("coding", set(ALL) - {"message", "browser", "canvas", "nodes", "agents_list"}),
        ("full", set(ALL)),
    ],
)
def test_a_profile_is_a_set_of_tools(profile: str, tools: set[str]) -> None:
    assert kept(*profile_layers(profile)) == tools


def test_also_allow_adds_to_the_profile() -> None:
    assert kept(*profile_layers("minimal", "read", "group:web")) == {
        "session_status", "gateway", "read", "web_search", "web_fetch",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("allow", "deny", "tools"),
    [
        (None, (), set(ALL)),
        ((), (), set(ALL)),  # an empty list allows everything
        (("read",), (), {"read"}),
        (("READ ",), (), {"read"}),
        (("group:fs",), (), set(FILES)),
        (("group:fs",), ("group:fs",), set()),  # deny wins
        (("*",), ("exec",), set(ALL) - {"exec"}),
        (("session*",), (), {name for name in ALL if name.startswith("session")}),
        (None, ("*",), set()),
        (None, ("web_*", "bash"), set(ALL) - {"web_search", "web_fetch", "exec"}),
        (("bash",), (), {"exec"}),
        (("apply-patch",), (), {"apply_patch"}),
        (("automations",), (), {"cron"}),
        (("view_image",), (), {"image"}),
        (("progress_card",), (), {"update_plan"}),
        (("write",), (), {"write", "apply_patch"}),
        (("write",), ("apply_patch",), {"write"}),
        (("group:unknown",), (), set()),
        (None, ("group:openclaw",), {*FILES, "exec", "process", "canvas"}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value)[:80],
)
def test_one_layer(allow: tuple[str, ...] | None, deny: tuple[str, ...], tools: set[str]) -> None:
    assert kept(layer(allow, deny)) == tools


def test_each_removed_tool_names_the_first_layer_that_removed_it() -> None:
    layers = [
        ToolLayer(name="profile", allow=("group:fs", "exec")),
        ToolLayer(name="agent", deny=("exec", "write")),
        ToolLayer(name="cron", allow=("read",)),
    ]
    tools, removed = apply_layers(("read", "write", "exec", "message", "ls"), layers)
    assert tools == ("read",)
    assert removed == (
        RemovedTool("message", "profile"),
        RemovedTool("write", "agent"),
        RemovedTool("exec", "agent"),
        RemovedTool("ls", "cron"),
    )


entries = st.sampled_from([*ALL, *(f"group:{name}" for name in GROUPS), *ALIASES, "*", "s*", "Write"])
layers = st.builds(
    layer, st.none() | st.lists(entries, max_size=4).map(tuple), st.lists(entries, max_size=3).map(tuple)
)


@given(st.lists(layers, max_size=4), layers)
def test_a_layer_can_only_take_away(before: list[ToolLayer], added: ToolLayer) -> None:
    tools, removed = apply_layers(ALL, before)
    fewer, _ = apply_layers(ALL, [*before, added])
    assert set(fewer) <= set(tools)
    assert sorted((*tools, *(item.tool for item in removed))) == sorted(ALL)


def test_every_profile_and_group_names_tools_that_exist() -> None:
    for profile in PROFILES:
        assert kept(*profile_layers(profile))
