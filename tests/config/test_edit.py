"""Changes of the file: checked, atomic, backed up, never lost."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pyjson5
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw.config import tree
from openclaw.config.edit import LOST_COMMENTS, Editor
from openclaw.config.files import BACKUPS
from openclaw.config.load import load, read
from openclaw.config.tree import format_path
from openclaw.core.errors import ConfigError, Conflict, InvalidRequest, NotFound, StateError
from openclaw.core.secret import REDACTED
from openclaw.process.environment import Home


@pytest.fixture
def editor(home: Home) -> Editor:
    return Editor(home, {})


def data(home: Home) -> dict[str, object]:
    found = pyjson5.decode(home.config.read_text())
    assert isinstance(found, dict)
    return found


def test_the_first_change_makes_a_private_file(tmp_path):
    home = Home(state=tmp_path / "new", config=tmp_path / "new" / "deep" / "openclaw.json")
    change = Editor(home, {}).set("agents.list[0].id", "main")
    assert data(home) == {"agents": {"list": [{"id": "main"}]}}
    assert home.config.stat().st_mode & 0o777 == 0o600
    assert home.config.parent.stat().st_mode & 0o777 == 0o700
    assert (change.before, change.after) == ("", read(home.config).hash)
    assert sorted(path.name for path in home.config.parent.iterdir()) == ["openclaw.json"]


def test_a_change_keeps_comments_and_everything_else(editor, home, write):
    write("// mine\n{\n  logging: { level: 'info' /* calm */ },\n  extra: 0x10, // unknown, and mine\n}\n")
    editor.set("logging.level", "debug")
    editor.set("tools.deny", ["exec"])
    change = editor.unset("extra")
    assert home.config.read_text() == (
        '// mine\n{\n  logging: { level: "debug" /* calm */ },\n  // unknown, and mine\n  tools: {\n'
        '    "deny": [\n      "exec"\n    ]\n  },\n}\n'
    )
    assert change.warnings == ()
    assert change.changed == ("extra",)


def test_variables_stay_as_they_are_written(home, write):
    write("{models: {providers: {a: {apiKey: '${KEY}', baseUrl: 'x'}}}}")
    Editor(home, {"KEY": "secret"}).set("models.providers.a.baseUrl", "y")
    assert "'${KEY}'" in home.config.read_text()
    assert "secret" not in home.config.read_text()


def test_what_would_not_work_is_not_written(editor, home, write):
    before = write("{logging: {level: 'info'}}").read_bytes()
    for path, value in [("logging.level", "loud"), ("agents", 5), ("tools.deny", "x"), ("agents.list[0].name", "x")]:
        with pytest.raises(ConfigError, match="nothing was written"):
            editor.set(path, value)
    for path in ("agents.list[1].id", "logging.level.deep", "logging[0]"):
        with pytest.raises(InvalidRequest):
            editor.set(path, "x")
    with pytest.raises(NotFound):
        editor.unset("logging.file")
    with pytest.raises(InvalidRequest, match="Unicode"):
        editor.set("logging.file", "\udcff")
    assert home.config.read_bytes() == before
    assert not home.config.with_name("openclaw.json.bak").exists()


def test_one_of_two_mistakes_can_be_mended_at_a_time(editor, home, write):
    write("{logging: {level: 'loud'}, tools: {deny: 1}}")
    editor.set("logging.level", "warn")
    editor.set("tools.deny", [])
    assert load(home, {}).config.logging.level == "warn"


def test_a_change_that_changes_nothing_writes_nothing(editor, home, write):
    write("{logging: {level: 'info'}}")
    stamp = home.config.stat().st_mtime_ns
    change = editor.set("logging.level", "info")
    assert (change.written, change.changed) == (False, ())
    assert home.config.stat().st_mtime_ns == stamp


def test_a_dry_run_touches_nothing(editor, home):
    change = editor.set("logging.level", "debug", dry_run=True)
    assert change.changed == ("logging.level",)
    assert not change.written
    assert list(home.state.iterdir()) == []


def test_five_older_versions_are_kept(editor, home):
    for number in range(8):
        editor.set("logging.file", f"/{number}")
    texts = [json.loads(home.config.with_name("openclaw.json" + name).read_text()) for name in BACKUPS]
    assert [text["logging"]["file"] for text in texts] == ["/6", "/5", "/4", "/3", "/2"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in home.state.iterdir() if path.is_file())


def test_a_change_to_what_is_no_longer_there_is_a_conflict(editor, home, write):
    write("{}")
    seen = read(home.config).hash
    editor.set("logging.level", "debug", base_hash=seen)
    with pytest.raises(Conflict):
        editor.set("logging.level", "trace", base_hash=seen)
    with pytest.raises(Conflict):
        editor.apply("{}", base_hash="")
    assert data(home) == {"logging": {"level": "debug"}}


def test_a_patch_merges_objects_and_null_takes_away(editor, home, write):
    write("{logging: {level: 'info', file: '/x'}, tools: {deny: ['a']}}")
    editor.patch({"logging": {"file": None, "consoleStyle": "json"}, "session": {"mainKey": "m"}})
    assert data(home) == {
        "logging": {"level": "info", "consoleStyle": "json"},
        "tools": {"deny": ["a"]},
        "session": {"mainKey": "m"},
    }


def test_a_patch_loses_no_list_entry_unless_told_to(editor, home, write):
    write("{tools: {deny: ['a', 'b']}, agents: {list: [{id: 'x', name: 'X'}, {id: 'y'}]}}")
    editor.patch({"tools": {"deny": ["a", "b", "c"]}, "agents": {"list": [{"id": "x", "name": "Z"}, {"id": "n"}]}})
    assert data(home) == {
        "tools": {"deny": ["a", "b", "c"]},
        "agents": {"list": [{"id": "x", "name": "Z"}, {"id": "y"}, {"id": "n"}]},
    }
    with pytest.raises(InvalidRequest, match=r"remove 2 of 3 entries of tools\.deny"):
        editor.patch({"tools": {"deny": ["b"]}})
    editor.patch({"tools": {"deny": ["b"]}, "agents": {"list": []}}, replace_paths=("tools.deny", "agents.list"))
    assert data(home) == {"tools": {"deny": ["b"]}, "agents": {"list": []}}


def test_apply_replaces_the_file_with_its_own_comments(editor, home, write):
    write("{ broken")
    editor.apply("// new\n{logging: {level: 'warn'}}\n")
    assert home.config.read_text() == "// new\n{logging: {level: 'warn'}}\n"
    with pytest.raises(ConfigError, match=r"logging\.level"):
        editor.apply("{logging: {level: 'x'}}")
    with pytest.raises(ConfigError, match="line 1, column"):
        editor.apply("{")


def test_a_round_trip_through_what_is_shown_keeps_the_credentials(editor, home, write):
    write("{models: {providers: {a: {apiKey: 'sk-real-and-secret', baseUrl: 'x'}}}} // end")
    shown = editor.get()
    assert shown["models"]["providers"]["a"]["apiKey"] == REDACTED
    shown["models"]["providers"]["a"]["baseUrl"] = "y"
    editor.apply("/* kept */ " + json.dumps(shown))
    assert home.config.read_text().startswith("/* kept */")
    assert load(home, {}).config.models.providers["a"].api_key.reveal() == "sk-real-and-secret"  # type: ignore[union-attr]
    editor.patch({"models": {"providers": {"a": {"apiKey": REDACTED, "baseUrl": "z"}}}})
    editor.set("models.providers.a", {"apiKey": REDACTED})
    assert data(home) == {"models": {"providers": {"a": {"apiKey": "sk-real-and-secret"}}}}
    with pytest.raises(InvalidRequest, match="placeholder"):
        editor.set("models.providers.b.apiKey", REDACTED)


def test_an_accident_is_stopped_and_what_was_to_be_written_is_kept(editor, home, write):
    write(json.dumps({"gateway": {"mode": "local"}, "agents": {"defaults": {"params": {"x": "y" * 600}}}}))
    with pytest.raises(InvalidRequest, match=r"gateway\.mode would be lost"):
        editor.apply("{}")
    with pytest.raises(InvalidRequest, match="shrink"):
        editor.apply("{gateway: {mode: 'local'}}")
    assert sorted(path.read_text() for path in home.state.glob("*.rejected.*")) == ["{gateway: {mode: 'local'}}", "{}"]
    editor.apply("{}", allow_clobber=True)
    assert data(home) == {}


@pytest.mark.parametrize("name", ["OPENCLAW_CONFIG_READONLY", "OPENCLAW_NIX_MODE"])
def test_a_read_only_configuration_is_not_written(home, name):
    with pytest.raises(InvalidRequest, match=name):
        Editor(home, {name: "1"}).set("logging.level", "debug")
    assert list(home.state.iterdir()) == []


def test_a_link_is_not_written_through(editor, home, write):
    real = write("{}", "real.json")
    home.config.symlink_to(real)
    with pytest.raises(ConfigError, match="symbolic link"):
        editor.set("logging.level", "debug")
    assert real.read_text() == "{}"


def test_what_an_included_file_says_is_changed_there(editor, home, write):
    write("{mode: 'merge', providers: {a: {baseUrl: 'x'}}}", "models.json5")
    write("{models: {$include: './models.json5', providers: {b: {}}}, logging: {}}")
    for path, value in (
        ("models.mode", "replace"),
        ("models.providers.a.baseUrl", "y"),
        ("models", {"$include": "./models.json5", "mode": "replace"}),
    ):
        with pytest.raises(InvalidRequest, match=r"change it there .*models\.json5"):
            editor.set(path, value)
    with pytest.raises(InvalidRequest, match=r"change it there .*models\.json5"):
        editor.unset("models.providers.a")
    editor.set("logging.level", "debug")
    editor.set("models.providers.b.baseUrl", "z")
    providers = load(home, {}).config.models.providers
    assert (providers["a"].base_url, providers["b"].base_url) == ("x", "z")
    assert "$include" in home.config.read_text()


def test_comments_are_given_up_only_with_a_warning():
    # No text is known that the editor in place cannot handle, so the door is shown from the inside.
    from openclaw.config import edit, source

    text, problems = edit._rewrite("/* c */ 5", [tree.TreeEdit("put", ("a",), 1)], {"a": 1})
    assert text == source.render_new({"a": 1})
    assert [problem.message for problem in problems] == [LOST_COMMENTS]


names = st.sampled_from(["model", "a.b", "x y", "ü", "0", "list"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=35, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.lists(names, min_size=1, max_size=3), values), min_size=1, max_size=3))
def test_what_is_set_can_be_got(editor, home, changes):
    home.config.unlink(missing_ok=True)
    for parts, value in changes:
        path = format_path(("agents", "defaults", "params", *parts))
        try:
            editor.set(path, value)
        except InvalidRequest:
            continue  # an earlier value is in the way
        assert tree.same(editor.get(path), value)
        assert tree.same(tree.find(data(home), ("agents", "defaults", "params", *parts)), value)


# More than one writer, and writers that die.

WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from openclaw.config.edit import Editor
    from openclaw.process.environment import Home
    state = Path(sys.argv[1])
    editor = Editor(Home(state=state, config=state / "openclaw.json"), {})
    print("ready", flush=True)
    for number in range(int(sys.argv[3])):
        editor.set(f"agents.defaults.params.{sys.argv[2]}{number}", "x" * 2000)
""")


def writer(home: Home, name: str, count: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", WRITER, str(home.state), name, str(count)], stdout=subprocess.PIPE)


def test_two_programs_and_two_threads_lose_no_edit(editor, home):
    children = [writer(home, name, 15) for name in ("a", "b")]
    threads = [
        threading.Thread(
            target=lambda name=name: [editor.set(f"agents.defaults.params.{name}{i}", i) for i in range(15)]
        )
        for name in ("c", "d")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child in children:
        child.communicate(timeout=30)
        assert child.returncode == 0
    assert len(load(home, {}).config.agents.defaults.params) == 60


def test_a_killed_writer_leaves_a_whole_file_behind(editor, home, write):
    write("// precious\n{}\n")
    chance = random.Random(7)
    for _ in range(6):
        child = writer(home, "k", 10_000)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0.0, 0.15))  # anywhere in its loop
        child.send_signal(signal.SIGKILL)
        child.communicate()
        loaded = load(home, {})
        assert loaded.issues == ()
        assert loaded.text.startswith("// precious\n")
        assert all(value == "x" * 2000 for value in loaded.config.agents.defaults.params.values())
    editor.set("logging.level", "debug")
    assert list(home.state.glob("*.tmp")) + list(home.state.glob(".*.tmp")) == []


FULL_DISK = textwrap.dedent("""
    import resource, sys
    from pathlib import Path
    from openclaw.config.edit import Editor
    from openclaw.process.environment import Home
    from openclaw.core.errors import StateError
    state = Path(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        Editor(Home(state=state, config=state / "openclaw.json"), {}).set("agents.defaults.workspace", "x" * 5000)
    except StateError as error:
        print(error.message)
""")


def test_a_full_disk_leaves_the_old_file_and_its_backups(home, write):
    write("{logging: {level: 'info'}}")
    Editor(home, {}).set("logging.level", "debug")
    before = {path.name: path.read_bytes() for path in home.state.iterdir() if path.is_file()}
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(home.state)], capture_output=True, text=True, timeout=120
    )
    assert "the disk is full; nothing was changed" in done.stdout, done.stderr
    assert {path.name: path.read_bytes() for path in home.state.iterdir() if path.is_file()} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_write_permission_is_told(editor, home, write):
    write("{}")
    home.state.chmod(0o500)
    try:
        with pytest.raises(StateError):
            editor.set("logging.level", "debug")
    finally:
        home.state.chmod(0o700)


def test_root_does_not_take_a_file_away_from_its_user(editor, home, write):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    path: Path = write("{}")
    os.chown(path, 12345, 12345)
    editor.set("logging.level", "debug")
    assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (12345, 0o600)
