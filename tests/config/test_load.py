"""From the file to the configuration in use."""

import os
import sys
import time
from pathlib import Path

import pytest

from openclaw.config.live import LiveConfig
from openclaw.config.load import LoadedConfig, load, read, save_last_good
from openclaw.core.errors import ConfigError
from openclaw.core.secret import REDACTED
from openclaw.process.environment import Home

KEY = "sk-very-secret-0123456789"


def warned(loaded: LoadedConfig) -> str:
    return "\n".join(map(str, loaded.warnings))


def provider(loaded: LoadedConfig, name: str = "a") -> str | None:
    key = loaded.config.models.providers[name].api_key
    return key.reveal() if key else None


def test_without_a_file_the_defaults_apply(home):
    loaded = load(home, {})
    assert (loaded.exists, loaded.hash, loaded.warnings) == (False, "", ())
    assert loaded.config.tools.exec.security == "allowlist"
    assert loaded.config.tools.exec.ask == "on-miss"
    assert loaded.config.session.write_lock.acquire_timeout_ms == 60_000


def test_a_reload_is_seen_by_everyone_who_holds_a_section(home, write):
    live = LiveConfig(load(home, {}))
    tools, hooks, variables = live.tools, live.internal_hooks, live.variables
    write("{tools: {exec: {security: 'deny'}}, hooks: {internal: {enabled: false}}}")
    live.replace(load(home, {"COLOUR": "blue"}))
    assert tools.current.exec.security == live.config.tools.exec.security == "deny"
    assert hooks.current is live.current.config.hooks.internal
    assert variables.current["COLOUR"] == "blue"


def test_an_empty_file_is_like_none(home, write):
    write(" \n")
    assert load(home, {}).exists


def test_json5_is_read_with_all_its_liberties(home, write):
    write(
        "\ufeff// a comment\n{ agents: { 'defaults': { model: 'a\\\n/b', timeoutSeconds: +0x10, /* five */"
        " bootstrapMaxChars: 5.0, params: {t: .5, u: -Infinity}, }, }, }"
    )
    defaults = load(home, {}).config.agents.defaults
    assert (defaults.model, defaults.timeout_seconds, defaults.bootstrap_max_chars) == ("a/b", 16, 5)
    assert isinstance(defaults.bootstrap_max_chars, int)
    assert defaults.params == {"t": 0.5, "u": float("-inf")}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("{\n  a: 1\n  b: 2\n}", 3, 3),
        ("{a: 1,, }", 1, 7),
        ('{"é😀": 1 "b": 2}', 1, 10),
        ("{a: 1}\n\n x", 3, 2),
        ("{\n a: {\n", 2, 5),
    ],
)
def test_a_slip_of_the_pen_is_shown_by_line_and_column(home, write, text, line, column):
    write(text)
    with pytest.raises(ConfigError) as caught:
        load(home, {})
    assert f"openclaw.json, line {line}, column {column}: " in caught.value.message
    caret = caught.value.message.splitlines()[-1]
    assert caret == " " * (column + 1) + "^"


@pytest.mark.parametrize(
    "text",
    [
        f'{{apiKey: "{KEY}}}',
        f"{{apiKey: {KEY}}}",
        f"{{a: '{KEY}' b: 1}}",
        f"{{\n  a: 1 // {KEY}\n b: 2,, c: '{KEY}'}}",
        f'{{agents: "{KEY}"}}',
        f'{{logging: {{level: "{KEY}"}}}}',
        f'{{models: {{providers: {{a: {{apiKey: ["{KEY}"]}}}}}}}}',
        f'{{models: {{providers: {{a: {{apiKey: {{source: "env", id: "{KEY}"}}}}}}}}}}',
        f'{{tools: {{exec: {{mode: "{KEY}"}}}}}}',
    ],
)
def test_an_error_never_repeats_a_credential(home, write, text):
    write(text)
    with pytest.raises(ConfigError) as caught:
        load(home, {})
    chain: BaseException | None = caught.value
    while chain is not None:
        assert KEY not in str(chain)
        assert KEY not in repr(chain)
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)


def test_nothing_loaded_shows_a_credential_in_its_repr(home, write):
    write(f'{{env: {{vars: {{T: "{KEY}"}}}}, models: {{providers: {{a: {{apiKey: "{KEY}"}}}}}}}}')
    loaded = load(home, {"OTHER": KEY})
    assert provider(loaded) == KEY
    assert KEY not in repr(loaded) + str(loaded) + repr(loaded.config) + repr(read(home.config))


def test_deep_nesting_is_an_error_and_not_a_crash(home, write):
    write("[" * 100_000)
    with pytest.raises(ConfigError, match="nested deeper than 64 levels"):
        load(home, {})
    write("{a:" * 100_000)
    with pytest.raises(ConfigError, match="nested deeper"):
        load(home, {})


def test_a_file_of_five_megabytes_is_read_and_one_of_eleven_is_refused(home, write):
    entries = ",".join(f'"k{i}": "{"x" * 100}"' for i in range(45_000))
    write(f"{{agents: {{defaults: {{params: {{{entries}}}}}}}}}")
    started = time.process_time()
    assert len(load(home, {}).config.agents.defaults.params) == 45_000
    assert time.process_time() - started < 10
    write(" " * (11 << 20))
    with pytest.raises(ConfigError, match="larger than 10 MiB"):
        load(home, {})


def test_only_a_regular_file_is_read(home):
    home.config.mkdir()
    with pytest.raises(ConfigError, match="not a regular file"):
        load(home, {})
    home.config.rmdir()
    os.mkfifo(home.config)
    with pytest.raises(ConfigError, match="not a regular file"):
        load(home, {})


def test_a_link_is_read_with_a_warning(home, write):
    home.config.symlink_to(write("{logging: {level: 'debug'}}", "real.json"))
    loaded = load(home, {})
    assert loaded.config.logging.level == "debug"
    assert "symbolic link" in warned(loaded)


def test_a_file_that_is_not_text_is_named_by_line(home):
    home.config.write_bytes(b"{\n a: '\xff'}")
    with pytest.raises(ConfigError, match="line 2: not UTF-8"):
        load(home, {})


def test_a_key_that_stands_twice_is_told(home, write):
    write("{logging: {level: 'info'}, agents: {list: [{id: 'a', \"id\": 'b'}]}, 'logging': {level: 'warn'}}")
    loaded = load(home, {})
    assert loaded.config.logging.level == "warn"
    assert [problem.path for problem in loaded.warnings] == ["agents.list[0].id", "logging"]


def test_the_root_must_be_an_object(home, write):
    write("[1]")
    with pytest.raises(ConfigError, match="must hold one object"):
        load(home, {})


# The last good configuration.


def test_a_broken_edit_keeps_the_last_good_configuration_running(home, write):
    write("{logging: {level: 'debug'}}")
    assert save_last_good(home, load(home, {}))
    assert home.last_good.stat().st_mode & 0o777 == 0o600
    assert not save_last_good(home, load(home, {}))
    write("{logging: {level: 'loud'}, tools: {deny: 1}}")
    loaded = load(home, {})
    assert loaded.used_last_good
    assert loaded.config.logging.level == "debug"
    assert [problem.path for problem in loaded.issues] == ["logging.level", "tools.deny"]
    assert loaded.hash == read(home.config).hash
    assert not save_last_good(home, loaded)
    write("{ not json")
    assert load(home, {}).used_last_good


def test_without_a_good_one_every_problem_is_told(home, write):
    write("{logging: {level: 'loud'}, tools: {deny: 1}}")
    with pytest.raises(ConfigError) as caught:
        load(home, {})
    assert "logging.level" in caught.value.message
    assert "tools.deny" in caught.value.message


def test_the_last_good_one_does_not_depend_on_included_files(home, write):
    write("{logging: {level: 'debug'}}", "more.json5")
    write("{$include: './more.json5'}")
    assert save_last_good(home, load(home, {}))
    write("{", "more.json5")
    loaded = load(home, {})
    assert (loaded.used_last_good, loaded.config.logging.level) == (True, "debug")


def test_a_file_with_placeholders_is_not_remembered(home, write):
    write(f"{{agents: {{defaults: {{workspace: '{REDACTED}'}}}}}}")
    assert not save_last_good(home, load(home, {}))
    assert not home.last_good.exists()


# Includes.


def test_includes_merge_in_order_and_what_stands_beside_them_wins(home, write):
    write("{mode: 'merge', providers: {a: {baseUrl: 'one'}, b: {baseUrl: 'two'}}}", "sub/one.json5")
    write("{providers: {a: {baseUrl: 'later'}}}", "sub/two.json5")
    write("{models: {$include: ['sub/one.json5', './sub/two.json5'], providers: {b: {api: 'ollama'}}}}")
    loaded = load(home, {})
    providers = loaded.config.models.providers
    assert (providers["a"].base_url, providers["b"].base_url, providers["b"].api) == ("later", "two", "ollama")
    assert [file.name for file in loaded.files] == ["one.json5", "two.json5"]


def test_an_include_of_an_include_is_relative_to_its_own_file(home, write):
    write("{$include: './inner.json5'}", "sub/outer.json5")
    write("{logging: {level: '${LEVEL}'}}", "sub/inner.json5")
    write("{$include: 'sub/outer.json5'}")
    assert load(home, {"LEVEL": "trace"}).config.logging.level == "trace"


@pytest.mark.parametrize(
    ("include", "words"),
    [
        ("'../outside.json5'", "outside the configuration directory"),
        ("'/etc/passwd'", "outside the configuration directory"),
        ("'link.json5'", "outside the configuration directory"),
        ("'linked/inside.json5'", "outside the configuration directory"),
        ("'missing.json5'", "there is no file"),
        ("'a\\0b'", "without NUL"),
        ("'" + "x" * 4096 + "'", "1 to 4095"),
        ("''", "1 to 4095"),
        ("5", "expected a file name"),
        ("[]", "expected a file name"),
        ("'self.json5'", "includes itself"),
        ("'deep0.json5'", "levels deep"),
        ("'wide0.json5'", "more than 200 files"),
        ("'big.json5'", "larger than 2 MiB"),
        ("'broken.json5'", "broken.json5, line 1, column 5"),
        ("'loop.json5'", "symbolic link|Too many levels"),
        ("'fifo'", "not a regular file"),
    ],
)
def test_a_hostile_include_is_refused(home, write, tmp_path, include, words):
    (tmp_path / "outside.json5").write_text("{}")
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "inside.json5").write_text("{}")
    (home.state / "link.json5").symlink_to(tmp_path / "outside.json5")
    (home.state / "linked").symlink_to(outside)
    (home.state / "loop.json5").symlink_to(home.state / "loop.json5")
    os.mkfifo(home.state / "fifo")
    write("{$include: './self.json5'}", "self.json5")
    for depth in range(12):
        write(f"{{$include: './deep{depth + 1}.json5'}}", f"deep{depth}.json5")
    for depth in range(6):
        names = ", ".join([f"'wide{depth + 1}.json5'"] * 10)
        write(f"{{$include: [{names}]}}", f"wide{depth}.json5")
    write("{}", "wide6.json5")
    write(" " * (3 << 20), "big.json5")
    write("{a: ]", "broken.json5")
    write(f"{{agents: {{$include: {include}}}}}")
    with pytest.raises(ConfigError, match=words):
        load(home, {})


def test_an_include_root_opens_one_more_directory(home, write, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "log.json5").write_text("{level: 'warn'}")
    write(f"{{logging: {{$include: '{shared}/log.json5'}}}}")
    assert load(home, {"OPENCLAW_INCLUDE_ROOTS": str(shared)}).config.logging.level == "warn"


# Variables.


def test_variables_are_filled_in_and_can_be_escaped(home, write):
    write("{agents: {defaults: {workspace: '${A}/x/${B_2}', repoRoot: '$${A}', userTimezone: '$A ${lower}'}}}")
    defaults = load(home, {"A": "/a", "B_2": "${A}"}).config.agents.defaults
    assert (defaults.workspace, defaults.repo_root) == ("/a/x/${A}", "${A}")
    assert defaults.user_timezone == "$A ${lower}"


def test_a_missing_variable_leaves_its_value_out_with_a_warning(home, write):
    write("{logging: {level: '${NONE}'}, tools: {deny: ['${NONE}', 'exec']}, agents: {defaults: {model: 'x${EMPTY}'}}}")
    loaded = load(home, {"EMPTY": ""})
    assert loaded.config.logging.level == "info"
    assert loaded.config.tools.deny == ("exec",)
    assert loaded.config.agents.defaults.model is None
    assert "logging.level: ${NONE} is not set" in warned(loaded)


def test_a_variable_comes_from_the_environment_then_dotenv_then_the_file(home, write):
    write('# mine\nexport B=\'two words\' # yes\nC="c\\n\\"d\\"" \nA=dotenv\nD = plain # comment\nbad line\n', ".env")
    write(
        "{env: {vars: {A: 'file', B: 'file', E: '${D}!'}}, agents: {defaults: {params: "
        "{a: '${A}', b: '${B}', c: '${C}', d: '${D}', e: '${E}'}}}}"
    )
    loaded = load(home, {"A": "process"})
    assert loaded.config.agents.defaults.params == {
        "a": "process", "b": "two words", "c": 'c\n"d"', "d": "plain", "e": "plain!",
    }  # fmt: skip
    assert ".env, line 6" in warned(loaded)
    assert loaded.variables["E"] == "plain!"


def test_the_login_shell_is_asked_for_what_is_missing(home, write, tmp_path):
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\nprintf 'WANTED=found\\0OTHER=no\\0'\n")
    shell.chmod(0o700)
    write("{env: {shellEnv: {enabled: true}}, agents: {defaults: {workspace: '${WANTED}'}}}")
    loaded = load(home, {"SHELL": str(shell)})
    assert loaded.config.agents.defaults.workspace == "found"
    assert "OTHER" not in loaded.variables


def test_a_variable_of_the_process_stands_above_the_file(home, write):
    write("{session: {writeLock: {staleMs: 5}}, logging: {level: 'info'}}")
    loaded = load(
        home,
        {
            "OPENCLAW_SESSION_WRITE_LOCK_STALE_MS": "7",
            "OPENCLAW_SESSION_WRITE_LOCK_MAX_HOLD_MS": "soon",
            "OPENCLAW_LOG_LEVEL": "debug",
        },
    )
    assert loaded.config.session.write_lock.stale_ms == 7
    assert loaded.config.session.write_lock.max_hold_ms == 300_000
    assert loaded.config.logging.level == "debug"
    assert "OPENCLAW_SESSION_WRITE_LOCK_MAX_HOLD_MS: expected whole milliseconds" in warned(loaded)


# Credentials kept elsewhere.


def with_key(write, key: str, more: str = "") -> None:
    write(f"{{models: {{providers: {{a: {{apiKey: {key}}}}}}}, {more}}}")


@pytest.mark.parametrize("key", ["'${MY_KEY}'", "'$MY_KEY'", "{source: 'env', id: 'MY_KEY'}"])
def test_a_key_can_be_named_by_its_variable(home, write, key):
    with_key(write, key)
    assert provider(load(home, {"MY_KEY": f"{KEY}\n"})) == KEY
    missing = load(home, {})
    assert provider(missing) is None
    assert "MY_KEY" in warned(missing)
    assert "models.providers.a.apiKey" in warned(missing)


def test_a_filled_in_value_is_not_filled_in_again(home, write):
    with_key(write, "'${MY_KEY}'")
    assert provider(load(home, {"MY_KEY": "$OTHER", "OTHER": "no"})) == "$OTHER"


def test_an_allowlist_limits_the_variables(home, write):
    with_key(
        write,
        "{source: 'env', id: 'B'}",
        "secrets: {defaults: {env: 'few'}, providers: {few: {source: 'env', allowlist: ['A']}}}",
    )
    assert "allowlist" in warned(load(home, {"B": "x"}))


def test_a_key_can_come_from_a_private_file(home, write, tmp_path):
    secret = tmp_path / "keys.json"
    secret.write_text(f'{{"a/b": {{"k": ["{KEY}"]}}, "n": 5}}')
    secret.chmod(0o600)
    providers = f"secrets: {{providers: {{f: {{source: 'file', path: '{secret}'}}}}}}"
    with_key(write, "{source: 'file', provider: 'f', id: '/a~1b/k/0'}", providers)
    assert provider(load(home, {})) == KEY
    with_key(write, "{source: 'file', provider: 'f', id: '/n'}", providers)
    assert "has no text at /n" in warned(load(home, {}))
    secret.chmod(0o644)
    assert "chmod 600" in warned(load(home, {}))
    secret.chmod(0o600)
    os.link(secret, tmp_path / "second")
    assert "single link" in warned(load(home, {}))
    (tmp_path / "second").unlink()
    secret.unlink()
    secret.symlink_to(tmp_path / "second")
    assert "cannot read" in warned(load(home, {}))


def test_a_file_can_be_one_value(home, write, tmp_path):
    secret = tmp_path / "key"
    secret.write_text(KEY + "\n")
    secret.chmod(0o600)
    with_key(
        write,
        "{source: 'file', provider: 'f', id: 'value'}",
        f"secrets: {{providers: {{f: {{source: 'file', mode: 'singleValue', path: '{secret}'}}}}}}",
    )
    assert provider(load(home, {})) == KEY


def program(home: Home, body: str) -> Path:
    path = home.state / "vault"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    path.chmod(0o700)
    return path


def exec_key(home: Home, write, body: str, more: str = "") -> LoadedConfig:
    path = program(home, body)
    with_key(
        write,
        "{source: 'exec', provider: 'v', id: 'a/key'}",
        f"secrets: {{providers: {{v: {{source: 'exec', command: '{path}', {more}}}}}}}",
    )
    return load(home, {"PASSED": "1", "HELD_BACK": "1"})


ANSWER = "q = json.load(sys.stdin)\nprint(json.dumps({'protocolVersion': 1, 'values': {i: V for i in q['ids']}}))"


def test_a_program_is_asked_for_a_key(home, write):
    body = f"V = {KEY!r}\n{ANSWER}"
    assert provider(exec_key(home, write, body)) == KEY


def test_a_program_gets_only_the_variables_it_was_given(home, write):
    body = "V = '/'.join(sorted(set(os.environ) & {'PASSED', 'HELD_BACK', 'OWN', 'PATH'}))\n" + ANSWER
    loaded = exec_key(home, write, body, "passEnv: ['PASSED'], env: {OWN: 'x'}")
    assert provider(loaded) == "OWN/PASSED"


@pytest.mark.parametrize(
    ("body", "more", "words"),
    [
        ("time.sleep(60)", "timeoutMs: 300", "did not answer within 300 ms"),
        ("print('{', flush=True); time.sleep(60)", "noOutputTimeoutMs: 200, timeoutMs: 20000", "did not answer"),
        ("print('x' * 200_000)", "maxOutputBytes: 1000", "more than 1000 bytes"),
        (f"print({KEY!r})", "", "did not answer with JSON"),
        (f"sys.exit({KEY!r})", "", "failed with exit code 1"),
        ("print(json.dumps({'protocolVersion': 2}))", "", "protocol version 1"),
        (
            "print(json.dumps({'protocolVersion': 1, 'values': {}, 'errors': {'a/key': {'code': 'LOCKED'}}}))",
            "",
            "LOCKED",
        ),
        ("print(1)", "trustedDirs: ['/nowhere']", "trustedDirs"),
    ],
)
def test_a_program_that_fails_costs_its_key_and_nothing_else(home, write, body, more, words):
    loaded = exec_key(home, write, body, more)
    assert provider(loaded) is None
    assert "models.providers.a.apiKey: the credential is not available" in warned(loaded)
    assert words in warned(loaded)
    assert KEY not in warned(loaded)


def test_a_program_may_answer_with_bare_text_when_that_is_agreed(home, write):
    assert provider(exec_key(home, write, f"print({KEY!r})", "jsonOnly: false")) == KEY


@pytest.mark.parametrize(
    ("key", "more", "words"),
    [
        ("{source: 'store', id: 'A'}", "", "not available yet"),
        ("{source: 'file', id: '/a'}", "", "add secrets.providers.default"),
        (
            "{source: 'exec', provider: 'f', id: 'a'}",
            "secrets: {providers: {f: {source: 'env'}}}",
            "not a provider for",
        ),
        (
            "{source: 'exec', provider: 'f', id: 'a'}",
            "secrets: {providers: {f: {source: 'exec', command: 'x'}}}",
            "absolute path",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_says_what_to_do(home, write, key, more, words):
    with_key(write, key, more)
    assert words in warned(load(home, {}))


def test_a_provider_cannot_need_a_secret_itself(home, write):
    with_key(
        write,
        "'x'",
        "secrets: {providers: {v: {source: 'exec', command: '/bin/x', env: {A: {source: 'env', id: 'A'}}}}}",
    )
    with pytest.raises(ConfigError, match=r"secrets\.providers\.v\.env\.A"):
        load(home, {})
