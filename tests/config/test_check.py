"""What the types say about a file: everything at once, by path."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.config import check as config_check
from openclaw.config import schema
from openclaw.config.check import check, lookup
from openclaw.config.migrate import migrate
from openclaw.core.errors import NotFound
from openclaw.core.secret import Secret


def errors(data: Any) -> dict[str, str]:
    return {problem.path: problem.message for problem in check(data).errors}


def warnings(data: Any) -> dict[str, str]:
    return {problem.path: problem.message for problem in check(data).warnings}


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        ({"agents": 5}, "agents", "expected an object, found the number 5"),
        ({"agents": None}, "agents", "expected an object, found null (remove the key to use its default)"),
        (
            {"agents": {"defaults": {"timeoutSeconds": "1h"}}},
            "agents.defaults.timeoutSeconds",
            'expected a number from 0, found "1h"',
        ),
        (
            {"agents": {"defaults": {"timeoutSeconds": -1}}},
            "agents.defaults.timeoutSeconds",
            "expected a number from 0, found the number -1",
        ),
        (
            {"agents": {"defaults": {"model": 4}}},
            "agents.defaults.model",
            "expected text or an object, found the number 4",
        ),
        (
            {"agents": {"defaults": {"model": {"primary": []}}}},
            "agents.defaults.model.primary",
            "expected text, found a list",
        ),
        (
            {"agents": {"list": [{"name": "x"}]}},
            "agents.list[0].id",
            "is missing: set it to text of 1 to 64 characters",
        ),
        (
            {"agents": {"list": [{"id": ""}]}},
            "agents.list[0].id",
            "expected text of 1 to 64 characters, found empty text",
        ),
        (
            {"session": {"scope": "all"}},
            "session.scope",
            'expected one of global, per-sender, found "all"',
        ),
        (
            {"session": {"writeLock": {"staleMs": 1.5}}},
            "session.writeLock.staleMs",
            "expected a whole number from 0, found the number 1.5",
        ),
        (
            {"session": {"writeLock": {"staleMs": True}}},
            "session.writeLock.staleMs",
            "expected a whole number from 0, found true",
        ),
        ({"tools": {"deny": "exec"}}, "tools.deny", 'expected a list, found "exec"'),
        ({"tools": {"deny": [1]}}, "tools.deny[0]", "expected text, found the number 1"),
        (
            {"tools": {"exec": {"timeoutSeconds": float("inf")}}},
            "tools.exec.timeoutSeconds",
            "expected a number from 0, found the number inf",
        ),
        ({"tools": {"fs": {"workspaceOnly": "yes"}}}, "tools.fs.workspaceOnly", 'expected true or false, found "yes"'),
        (
            {"secrets": {"providers": {"x": {"source": "vault"}}}},
            "secrets.providers.x.source",
            'expected one of env, file, exec, found "vault"',
        ),
        (
            {"secrets": {"providers": {"X!": {"source": "env"}}}},
            "secrets.providers.X!",
            "'X!' cannot be a name here: use text like ^[a-z][a-z0-9_-]{0,63}$",
        ),
        (
            {"models": {"providers": {"a": {"apiKey": 5}}}},
            "models.providers.a.apiKey",
            "expected text, ${NAME} or a secret reference, found the number 5",
        ),
        (
            {"models": {"providers": {"a": {"apiKey": {"source": "env", "id": "lower"}}}}},
            "models.providers.a.apiKey",
            "the id of a secret from env is a name like OPENAI_API_KEY",
        ),
        (
            {"models": {"providers": {"a": {"apiKey": {"source": "exec", "id": "a/../b"}}}}},
            "models.providers.a.apiKey",
            "the id of a secret from a program is made of letters, digits and . _ : / # -",
        ),
        (
            {"tools": {"allow": ["a"], "alsoAllow": ["b"]}},
            "tools.alsoAllow",
            "cannot stand beside tools.allow: list every tool in allow, or use a profile with alsoAllow",
        ),
        (
            {"agents": {"list": [{"id": "a"}, {"id": "A"}]}},
            "agents.list[1].id",
            "the agent a is there twice: give one of them another id",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_path_and_what_was_expected(data, path, message):
    assert errors(data) == {path: message}


def test_every_error_is_told_not_only_the_first():
    assert set(errors({"agents": 1, "tools": {"deny": 2}, "logging": {"level": "loud"}})) == {
        "agents",
        "tools.deny",
        "logging.level",
    }


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        ({"agnets": {}}, "agnets", "Did you mean agents?"),
        (
            {"agents": {"defaults": {"timeoutseconds": 1}}},
            "agents.defaults.timeoutseconds",
            "Did you mean timeoutSeconds?",
        ),
        ({"cloudWorkers": {"x": 1}}, "cloudWorkers", "known to OpenClaw but not supported here yet"),
        ({"agents": {"defaults": {"pdfMaxMb": 1}}}, "agents.defaults.pdfMaxMb", "known to OpenClaw"),
        (
            {"agents": {"defaults": {"memorySearch": {"remote": {"batch": {"enabled": True}}}}}},
            "agents.defaults.memorySearch.remote.batch",
            "is not a setting; it is ignored",
        ),
        (
            {"agents": {"defaults": {"memorySearch": {"local": {"modelCacheDir": "x"}}}}},
            "agents.defaults.memorySearch.local.modelCacheDir",
            "is not a setting; it is ignored",
        ),
        ({"cloudWrokers": {}}, "cloudWrokers", "OpenClaw has cloudWorkers, which is not supported here yet"),
        ({"xyzzy": 1}, "xyzzy", "is not a setting; it is ignored"),
        ({"models": {"providers": {"a": {"baseURL": "x"}}}}, "models.providers.a.baseURL", "Did you mean baseUrl?"),
    ],
)
def test_an_unknown_key_is_only_a_warning(data, path, words):
    assert errors(data) == {}
    assert words in warnings(data)[path]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {
            "$schema": "https://example.com/s.json",
            "meta": {"lastTouchedVersion": "1"},
            "wizard": {"lastRunMode": "local"},
        },
        {"agents": {"defaults": {"model": "a/b"}, "list": [{"id": "main", "identity": {"emoji": "x"}}]}},
        {"agents": {"defaults": {"model": {"primary": "a", "fallbacks": ["b"]}, "maxConcurrent": 4.0}}},
        {
            "models": {
                "providers": {"a": {"apiKey": {"source": "exec", "provider": "op", "id": "a/b"}, "timeoutSeconds": 1}}
            }
        },
        {"secrets": {"providers": {"op": {"source": "exec", "command": "/bin/x"}}}},
        {
            "models": {
                "providers": {
                    "a": {"models": [{"id": "m", "cost": {"input": 1}, "compat": {"maxTokensField": "max_tokens"}}]}
                }
            }
        },
    ],
)
def test_a_good_file_has_nothing_to_tell(data):
    found = check(data)
    assert (found.errors, found.warnings) == ([], [])


def test_a_long_value_is_never_quoted():
    assert "sk-" not in str(check({"logging": {"level": "sk-" + "a" * 40}}).errors)
    found = check({"logging": {"level": "hunter2"}}, hidden={("logging", "level")})
    assert "hunter2" not in str(found.errors)


words = st.sampled_from(["model", "list", "id", "defaults", "exec", "security", "deny", "full", "writeLock", "staleMs"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("agents", "session", "tools", "logging", "env"), junk)))
def test_what_passes_the_check_can_be_used(data):
    found = check(data)
    if not found.errors and not found.whole:
        msgspec.convert(data, schema.Config, dec_hook=lambda kind, value: Secret(str(value)))


def test_agents_may_be_written_as_a_map():
    given_ = {"agents": {"entries": {"work": {"name": 5}}, "home": {"model": "a/b"}, "defualts": {"x": 1}}}
    moved = migrate(given_)
    assert moved.data["agents"]["list"] == [{"id": "work", "name": 5}, {"id": "home", "model": "a/b"}]
    assert "entries" not in moved.data["agents"]
    found = check(moved.data, before=moved.before)
    assert [problem.path for problem in found.errors] == ["agents.entries.work.name"]
    assert [str(problem) for problem in found.warnings] == [
        "agents.defualts: is not a setting; it is ignored. Did you mean defaults?"
    ]


def test_the_list_wins_over_a_map_of_the_same_name():
    moved = migrate({"agents": {"list": [{"id": "a", "name": "x"}], "entries": {"a": {"name": "y"}}}})
    assert moved.data["agents"]["list"] == [{"id": "a", "name": "x"}]
    assert moved.warnings[0].path == "agents.entries.a"


@pytest.mark.parametrize(
    ("mode", "security", "ask"),
    [
        ("deny", "deny", "off"),
        ("allowlist", "allowlist", "off"),
        ("ask", "allowlist", "on-miss"),
        ("full", "full", "off"),
    ],
)
def test_the_exec_mode_stands_for_a_pair(mode, security, ask):
    assert migrate({"tools": {"exec": {"mode": mode}}}).data["tools"]["exec"] == {"security": security, "ask": ask}


def test_the_exec_mode_and_the_pair_exclude_each_other():
    assert migrate({"tools": {"exec": {"mode": "full", "ask": "off"}}}).errors[0].path == "tools.exec.mode"
    assert migrate({"tools": {"exec": {"mode": "yolo"}}}).errors[0].found == '"yolo"'


def test_bash_is_an_old_name_of_exec():
    moved = migrate({"tools": {"bash": {"security": "full", "ask": 3}, "exec": {"security": "deny"}}})
    assert moved.data["tools"] == {"exec": {"security": "deny", "ask": 3}}
    assert check(moved.data, before=moved.before).errors[0].path == "tools.bash.ask"


def test_the_names_of_openclaw_are_recognised():
    assert config_check.is_upstream_setting(("channels", "telegram")) or config_check.is_upstream_setting(
        ("channels", "feishu")
    )
    assert config_check.is_upstream_setting(("session", "sendPolicy", "rules", 0, "action"))
    assert config_check.is_upstream_setting(("secrets", "providers", "anything", "inside"))
    assert not config_check.is_upstream_setting(("session", "nonsense"))


def test_every_setting_has_a_line_of_documentation():
    document = schema.json_schema()
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for name, part in document["$defs"].items():
        for key, entry in part.get("properties", {}).items():
            assert entry["description"].strip(), f"{name}.{key}"
            # A field without a line of its own is shown with that of its type, which says too little of a setting;
            # `source` is not a field, but tells types apart.
            own = entry["description"] != part.get("description", part["title"])
            assert own or key == "source" or name in ("Compat", "Price", "SecretRef"), f"{name}.{key}"
    key = document["$defs"]["ProviderSettings"]["properties"]["apiKey"]
    assert '"sensitive": true' in msgspec.json.format(msgspec.json.encode(key)).decode()


def test_a_setting_can_be_looked_up():
    setting = lookup("tools.exec.security")
    assert (setting.default, setting.constraints) == ("allowlist", {"enum": ["allowlist", "deny", "full"]})
    assert "stricter" in setting.doc
    assert lookup("models.providers.openai.apiKey").sensitive
    assert [child.key for child in lookup("agents").children] == ["defaults", "list"]
    assert [child.key for child in lookup("agents.list").children] == ["[]"]
    assert lookup("agents.list[0].id").required
    assert "tools" in {child.key for child in lookup("").children}
    assert lookup("session.writeLock.staleMs").constraints == {"minimum": 0}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("agents.default", "did you mean agents.defaults?"),
        ("telemetry.enabled", "known to OpenClaw"),
        ("agents.defaults.model.primary.x", "no setting"),
    ],
)
def test_looking_up_what_is_not_there_names_what_is(path, words):
    with pytest.raises(NotFound, match=words.replace("?", r"\?")):
        lookup(path)
