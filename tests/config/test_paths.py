"""Where things are, and how one setting is named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.config import tree
from openclaw.core.errors import ConfigError, InvalidRequest
from openclaw.process.environment import locate

ME = Path("/home/me")
HERE = Path("/somewhere")


@pytest.mark.parametrize(
    ("environ", "state", "config"),
    [
        ({}, "/home/me/.openclaw", "/home/me/.openclaw/openclaw.json"),
        ({"OPENCLAW_PROFILE": "dev"}, "/home/me/.openclaw-dev", "/home/me/.openclaw-dev/openclaw.json"),
        ({"OPENCLAW_PROFILE": "default"}, "/home/me/.openclaw", "/home/me/.openclaw/openclaw.json"),
        ({"OPENCLAW_HOME": "/srv"}, "/srv/.openclaw", "/srv/.openclaw/openclaw.json"),
        ({"OPENCLAW_STATE_DIR": "/var/claw"}, "/var/claw", "/var/claw/openclaw.json"),
        ({"OPENCLAW_STATE_DIR": "~/claw"}, "/home/me/claw", "/home/me/claw/openclaw.json"),
        ({"OPENCLAW_STATE_DIR": "claw"}, "/somewhere/claw", "/somewhere/claw/openclaw.json"),
        ({"OPENCLAW_CONFIG_PATH": "/etc/c.json5"}, "/home/me/.openclaw", "/etc/c.json5"),
        ({"OPENCLAW_HOME": "", "OPENCLAW_PROFILE": ""}, "/home/me/.openclaw", "/home/me/.openclaw/openclaw.json"),
    ],
)
def test_the_environment_says_where_the_state_is(environ, state, config):
    home = locate(environ, ME, HERE)
    assert (home.state, home.config) == (Path(state), Path(config))


@pytest.mark.parametrize("profile", ["../x", "a/b", ".", "x" * 65, "a b"])
def test_a_profile_cannot_lead_elsewhere(profile):
    with pytest.raises(ConfigError, match="profile name"):
        locate({"OPENCLAW_PROFILE": profile}, ME, HERE)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b[0].c", ("a", "b", 0, "c")),
        ('a["x.y"]', ("a", "x.y")),
        ("a['x.y'].b", ("a", "x.y", "b")),
        ("agents.defaults.models.anthropic/claude", ("agents", "defaults", "models", "anthropic/claude")),
        ('["$schema"]', ("$schema",)),
        ("$schema", ("$schema",)),
        ("list.0", ("list", "0")),
    ],
)
def test_a_path_is_read_with_dots_and_brackets(text, path):
    assert tree.parse_path(text) == path


@pytest.mark.parametrize(
    "text",
    ["", ".", "a.", ".a", "a..b", "a[", "a[x]", 'a["x]', "a]b", "a b", "[0", "a[-1]", "a.__proto__", "constructor",
     'a["prototype"]', ".".join("a" * 65)],
)  # fmt: skip
def test_a_path_that_cannot_be_is_refused_with_an_example(text):
    with pytest.raises(InvalidRequest):
        tree.parse_path(text)


@given(st.lists(st.text(max_size=6) | st.integers(0, 999), min_size=1, max_size=6))
def test_a_path_is_written_as_it_is_read(parts):
    path = tuple(parts)
    if not tree.BLOCKED & set(path):
        assert tree.parse_path(tree.format_path(path)) == path
