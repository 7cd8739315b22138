"""What commands inherit, what a model may set, what is never run."""

import time

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.process.environment import check_overrides, safe_env
from openclaw.tools.exec import find_forbidden


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "GITHUB_TOKEN",
        "github_token",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
        "PGPASSWORD",
        "MYSQL_PWD",
        "OPENCLAW_GATEWAY_TOKEN",
        "MYAPIKEY",
        "SLACK_BOT_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "SENTRY_DSN",
        "SESSION_COOKIE",
    ],
)
def test_names_of_credentials_are_not_inherited(name):
    assert safe_env({name: "value"}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "sk-proj-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrstuvwxyz",
        "postgres://user:hunter2@db/x",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_values_that_are_credentials_are_not_inherited_under_any_name(value):
    assert safe_env({"HARMLESS": value}) == {}


def test_what_a_shell_needs_stays():
    env = {
        "PATH": "/usr/bin",
        "HOME": "/home/u",
        "PWD": "/home/u",
        "OLDPWD": "/",
        "SSH_AUTH_SOCK": "/run/agent",
        "XAUTHORITY": "/home/u/.Xauthority",
        "LANG": "C.UTF-8",
        "TERM_SESSION_ID": "1",
        "GIT_AUTHOR_NAME": "U",
        "KEYBOARD_LAYOUT": "de",
        "HTTP_PROXY": "http://proxy:3128",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
    }
    assert safe_env(env) == env


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "path",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "NODE_OPTIONS",
        "PYTHONPATH",
        "BASH_ENV",
        "ENV",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_GLOBAL",
        "PERL5OPT",
        "RUBYOPT",
        "PAGER",
        "HOME",
        "npm_config_script_shell",
    ],
)
def test_a_variable_that_changes_what_runs_is_refused(name):
    with pytest.raises(InvalidRequest, match="Security violation"):
        check_overrides({name: "x"})


def test_ordinary_variables_may_be_set():
    check_overrides({"DEBUG": "1", "PYTHONUNBUFFERED": "1", "GIT_AUTHOR_NAME": "A", "MY_VAR": "\u00e9", "TZ": "UTC"})


@pytest.mark.parametrize("env", [{"A B": "x"}, {"": "x"}, {"A=B": "x"}, {"1A": "x"}, {"A": "x\0y"}, {"A\n": "x"}])
def test_what_is_no_variable_is_refused(env):
    with pytest.raises(InvalidRequest):
        check_overrides(env)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "  \n ",
        "echo a\0b",
        "/approve abc allow-once",
        " /approve abc deny",
        "openclaw channels login",
        "cd /x && openclaw channels login --channel whatsapp",
        "FOO=1 sudo openclaw --profile=x channels login",
        "echo hi\nopenclaw channels login",
        "/usr/local/bin/openclaw channels login",
        "(openclaw channels login)",
        "'openclaw' channels 'login'",
        "echo $(openclaw channels login)",
        'open"claw" channels log\\in',
    ],
)
def test_what_a_person_must_do_is_refused(command):
    assert find_forbidden(command)


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "grep -r 'openclaw channels login' docs",
        "echo /approve",
        "openclaw channels list",
        "cat openclaw channels login",
        "echo 'it is open",
        "cat <<EOF\nhello\nEOF",
    ],
)
def test_other_commands_are_not(command):
    assert find_forbidden(command) is None


def test_a_long_command_is_judged_quickly():
    started = time.process_time()
    assert find_forbidden("echo " + "x" * 120_000) is None
    assert find_forbidden("echo '" + "\\" * 120_000) is None
    assert find_forbidden('"' * 50_001 + "'" * 50_001) is None
    assert "write it to a file" in str(find_forbidden("echo " + "x" * 3_000_000))
    assert time.process_time() - started < 2
