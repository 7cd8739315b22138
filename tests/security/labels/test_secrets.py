"""Credentials: which files usually hold them, what is blotted out wherever a tool reads, and in which notations."""

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.core.secret import REDACTED, Secret, is_secret_path
from openclaw.security import redaction
from openclaw.security.redaction import Redactor, redact_credentials, redact_found, secret_variables
from openclaw.testing import ScriptedApprover, ScriptedModel, TemporaryHome, ask, calls, says
from tests.security.labels.world import world

KEY = "k9QzR4tYw2LmN8pXc5Vb7Hd3Js6Fg1Aa"

USUAL = """
credentials.json token.json prod.env .env-prod passwords.txt .bash_history service-account.json .config/gh/hosts.yml
terraform.tfstate .vault-token .my.cnf cookies.sqlite api_keys.txt .htpasswd wp-config.php id_rsa.bak .env .env.local
server.pem server.key.bak .netrc .zsh_history prod.tfvars client_secret_123.json aws-credentials.csv .kube/config
""".split()
ORDINARY = """
config/settings.yml .env.example notes.md src/keys.py environment.md id_cards.md tokenizer.json tokens.py
design-tokens.json id_rsa.pub public.pem package.json secrets.md password_reset.py credentials.example.json
hosts.yml tsconfig.json
""".split()


@pytest.mark.parametrize("name", USUAL)
def test_files_that_usually_hold_credentials_are_known(name: str) -> None:
    assert is_secret_path(f"/home/ada/work/{name}")


@pytest.mark.parametrize("name", ORDINARY)
def test_files_that_only_sound_like_it_are_not(name: str) -> None:
    assert not is_secret_path(f"/home/ada/work/{name}")


@pytest.mark.parametrize(
    "text",
    [
        f"password: {KEY}",
        f'  "api_key": "{KEY}",',
        f"AWS_SECRET_ACCESS_KEY={KEY}",
        f"ghp_{KEY}",
        f"sk-ant-api03-{KEY}",
        "AKIAQ3EGR7T2KW5ZPLMN",
        f"DATABASE_URL=postgres://app:{KEY}@db/prod",
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_certainly_is_a_credential_is_blotted_out(text: str) -> None:
    assert KEY not in redact_found(text) and REDACTED in redact_found(text)


SHAPED = f"""
sk-{KEY} sk_live_{KEY} pk-{KEY} pk_test_{KEY} rk-{KEY} rk_live_{KEY} glpat-{KEY} npm_{KEY} hf_{KEY} gsk_{KEY} xai-{KEY}
pplx-{KEY} r8_{KEY} pypi-{KEY}{KEY} xapp-{KEY} dop_v1_{KEY}{KEY} ya29.{KEY} ASIA{KEY[:16].upper()} SG.{KEY}.{KEY}
AGE-SECRET-KEY-1{KEY.upper()} https://hooks.slack.com/services/{KEY} https://discord.com/api/webhooks/{KEY}
https://discordapp.com/api/webhooks/{KEY} ghp_{KEY} gho_{KEY} ghu_{KEY} ghs_{KEY} ghr_{KEY} github_pat_{KEY} xoxb-{KEY}
AKIA{KEY[:16].upper()} AIza{KEY} eyJ{KEY}.{KEY}.{KEY} 12345678:{KEY} https://ada:{KEY}@db https://db/?token={KEY}
""".split()


@pytest.mark.parametrize("text", [*SHAPED, f"Bearer {KEY}", f"Basic {KEY}", f"-----BEGIN PRIVATE KEY-----\n{KEY}"])
def test_whatever_shape_a_credential_has_clients_are_not_shown_it(text: str) -> None:
    shown = redact_credentials(f"a note, {text} and more")
    assert REDACTED in shown and KEY[:16].lower() not in shown.lower()


@pytest.mark.parametrize(
    "text",
    [
        "password = os.environ['DB_PASSWORD']",
        "token: ${GITHUB_TOKEN}",
        "api_key: your-api-key-here-12345",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
        "AKIAIOSFODNN7EXAMPLE",
        "tokens_per_second: 1234567.12",
        "def reset_password(user): return secrets.token_hex(16)",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "https://example.org/a:b@c",
        "the secret of good bread is time",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact_found(text) == text


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_a_known_value_is_blotted_out_in_simple_notations(before: str) -> None:
    redactor = Redactor()
    redactor.know([Secret(KEY)])
    data = f"{before}{KEY} and more".encode()
    for text in (
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        data.hex(),
        data.hex().upper(),
    ):
        assert REDACTED in redactor.known(text), text
    assert redactor.known(KEY[::-1]) == REDACTED
    assert redactor.known("nothing here") == "nothing here"


def test_logins_in_addresses_are_known_by_any_name() -> None:
    found = {
        each.reveal()
        for each in secret_variables({"DATABASE_URL": "postgres://app:pa%40ss-word@db/x", "PAGER": "less"})
    }
    assert found == {"pa%40ss-word", "pa@ss-word"}


@pytest.mark.anyio
async def test_a_settings_file_is_read_without_its_password_unless_the_owner_names_it(
    openclaw_home: TemporaryHome,
) -> None:
    async with world(openclaw_home) as it:
        it.put("config/settings.yml", f"port: 8080\npassword: {KEY}\n")
        await it.says("run `cat config/*.yml`; grep for `p` in `config`", "one")
        first, second = await it.results("one")
        for result in (first, second):
            assert "8080" in result.text and KEY not in result.text and REDACTED in result.text
        await it.says("read `config/settings.yml`", "two")
        assert KEY in (await it.results("two"))[0].text


@pytest.mark.anyio
async def test_config_env_is_blotted_out_of_command_output_in_any_notation(openclaw_home: TemporaryHome) -> None:
    more: dict[str, Any] = {"env": {"vars": {"PLAIN_NAME": KEY}}}
    async with world(openclaw_home, environ={"DATABASE_URL": f"postgres://app:{KEY[:20]}@db/x"}, **more) as it:
        it.put("out.txt", f"{KEY}\n{KEY[:20]}\n")
        await it.says("run `cat out.*`; run `base64 out.*`; run `rev out.*`; run `od -An -tx1 out.*`", "one")
        for result in await it.results("one"):
            assert KEY not in result.text and KEY[::-1] not in result.text and REDACTED in result.text, result.text


@pytest.mark.anyio
async def test_a_patch_that_renames_a_key_reads_it(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.workspace / "server.pem").write_text("old line\n")
    patch = "*** Begin Patch\n*** Update File: server.pem\n*** Move to: notes-x.txt\n@@\n-old line\n+new\n*** End Patch"
    openclaw_home.use_model()
    model = ScriptedModel(calls("apply_patch", input=patch), says("ok"))
    approver = ScriptedApprover("deny")
    async with openclaw_home.assistant(model, approver=approver) as app:
        await ask(app, "tidy up")
    assert ["credentials" in each.why for each in approver.asked] == [True]
    assert (openclaw_home.workspace / "server.pem").exists()


@pytest.mark.anyio
async def test_the_mark_of_a_credential_is_not_written_back(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(calls("write", path="settings.yml", content=f"password: {REDACTED}\n"), says("ok"))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "write it")
    assert not (openclaw_home.workspace / "settings.yml").exists()
    assert "was not shown to you" in model.requests[-1].messages[-1].text


@settings(deadline=None)
@given(st.from_regex(redaction._SHAPES.pattern, fullmatch=True, alphabet=st.characters(max_codepoint=127)))
def test_looking_first_for_how_credentials_begin_misses_none(text: str) -> None:
    assert text not in redact_credentials(f"see {text} there")
