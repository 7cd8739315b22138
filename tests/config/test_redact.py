"""What may be shown."""

import json

import pytest

from openclaw.config.redact import redact, restore
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import REDACTED

S = "hunter2-hunter2"


@pytest.mark.parametrize(
    "data",
    [
        {"models": {"providers": {"a": {"apiKey": S}}}},
        {"models": {"providers": {"a": {"headers": {"Authorization": S, "x-api-key": S, "Cookie": S}}}}},
        {"models": {"providers": {"a": {"params": {"api_key": S, "deep": [{"clientSecret": S}]}}}}},
        {"models": {"providers": {"a": {"baseUrl": f"https://me:{S}@host/v1"}}}},
        {"models": {"providers": {"a": {"baseUrl": f"https://host/v1?api_key={S}&x=1"}}}},
        {"env": {"vars": {"ANYTHING": S}}},
        {"secrets": {"providers": {"v": {"source": "exec", "command": "/x", "env": {"A": S}}}}},
        {"gateway": {"auth": {"token": S, "password": S}}},
        {"channels": {"telegram": {"botToken": S, "accounts": {"x": {"appSecret": S, "signingKey": S}}}}},
        {"channels": {"x": {"tokens": {"a": S, "b": [S]}, "credentials": {"user": S}}}},
        {"mcp": {"servers": {"x": {"args": ["--token", S, f"--api-key={S}"], "env": {"GITHUB_TOKEN": S}}}}},
        {"mcp": {"servers": {"x": {"headers": {"X-Auth": S}, "url": f"postgres://u:{S}@h/db"}}}},
        {"unknown": {"password": S, "PASSWORD": S, "pass_phrase": f"Bearer {S}", "private-key": S}},
        {"notes": "use sk-hunter2hunter2hunter2 if you must"},
    ],
)
def test_a_credential_is_never_shown(data):
    text = json.dumps(redact(data))
    assert S not in text
    assert "sk-hunter2" not in text
    assert REDACTED in text


@pytest.mark.parametrize(
    "data",
    [
        {"models": {"providers": {"a": {"apiKey": "${OPENAI_KEY}"}, "b": {"apiKey": "$KEY"}}}},
        {"models": {"providers": {"a": {"apiKey": {"source": "exec", "provider": "op", "id": "a/b"}}}}},
        {"models": {"providers": {"a": {"headers": {"Authorization": "Bearer ${TOKEN}", "x-title": "me"}}}}},
        {"models": {"providers": {"a": {"maxTokens": 5, "baseUrl": "https://host/v1?x=1"}}}},
        {"session": {"mainKey": "main"}, "agents": {"defaults": {"model": "anthropic/claude-3"}}},
        {"auth": {"order": {"openai": ["openai:work"]}}, "logging": {"redactSensitive": "off"}},
        {"secrets": {"defaults": {"env": "x"}, "providers": {"f": {"source": "file", "path": "/keys"}}}},
        {"channels": {"x": {"enabled": True, "tokenBudget": 5, "contextTokens": 7}}},
        {"gateway": {"auth": {"token": "${T}", "mode": "token"}, "port": 1}},
    ],
)
def test_what_is_no_credential_stays_readable(data):
    wanted = json.dumps(data).replace("Bearer ${TOKEN}", REDACTED)
    assert json.dumps(redact(data)) == wanted


def test_a_part_is_redacted_like_the_whole():
    assert redact(S, ("models", "providers", "a", "apiKey")) == REDACTED
    assert redact(S, ("gateway", "auth", "token")) == REDACTED
    assert redact({"Authorization": S}, ("models", "providers", "a", "headers")) == {"Authorization": REDACTED}
    assert redact(S, ("models", "providers", "a", "headers", "Authorization")) == REDACTED
    assert redact({"a": S}, ("channels", "x", "tokens")) == {"a": REDACTED}
    assert redact(5, ("channels", "x", "pin")) == REDACTED


def test_what_was_hidden_comes_back_when_it_is_written_again():
    current = {
        "models": {"providers": {"a": {"apiKey": S, "baseUrl": f"https://u:{S}@h"}}},
        "agents": {"list": [{"id": "x", "params": {"token": "one"}}, {"id": "y", "params": {"token": "two"}}]},
        "channels": {"x": {"pin": 1234}},
    }
    shown = redact(current)
    assert S not in json.dumps(shown)
    assert restore(shown, current) == current
    shown["agents"]["list"].reverse()
    assert restore(shown, current)["agents"]["list"][0] == {"id": "y", "params": {"token": "two"}}


@pytest.mark.parametrize("value", [REDACTED, f"https://{REDACTED}@elsewhere"])
def test_a_placeholder_for_nothing_is_refused(value):
    with pytest.raises(InvalidRequest, match=r"a\.token"):
        restore({"a": {"token": value}}, {"a": {"token": "${T}"}})
    with pytest.raises(InvalidRequest):
        restore({"a": [{"id": "n", "token": value}]}, {"a": [{"id": "m", "token": S}]})
