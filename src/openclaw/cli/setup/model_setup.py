"""`openclaw models auth|login|add|set|test`, and the question of onboarding: connects a model and shows its answer."""

import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from openclaw.cli.client import call, given
from openclaw.cli.render import JSON, note, say, show
from openclaw.cli.setup.login import sign_in
from openclaw.core.errors import OpenClawError
from openclaw.models import registry

CONNECT_SECONDS = 90.0
KEY_FILE = click.option(
    "--key-file", type=click.File(), metavar="FILE", help="Read the key from FILE; - is standard input."
)
MODEL = click.option(
    "--model", metavar="REF", help="provider/model to use with it, instead of the provider's usual one."
)
KEEP_MODEL = click.option("--keep-model", is_flag=True, help="Keep the model that answers now; only the key is added.")
NO_CHECK = click.option("--no-check", is_flag=True, help="Keep it without trying it.")


@click.command("auth")
@click.argument("provider", required=False)
@KEY_FILE
@click.option("--from-env", is_flag=True, help="Take the key from this shell's variable, such as OPENAI_API_KEY.")
@MODEL
@KEEP_MODEL
@NO_CHECK
@JSON
def auth(
    provider: str | None,
    key_file: Any,
    from_env: bool,
    model: str | None,
    keep_model: bool,
    no_check: bool,
    as_json: bool,
) -> None:
    """Give a provider's key: it is typed unseen, tried at once, and kept when the model answers.

    Without PROVIDER it asks which one. A running gateway uses the key from the next message on.
    """
    if provider == "login":
        raise click.UsageError("sign in with: openclaw models login openrouter")
    asks = sys.stdin.isatty() and key_file is None and not (from_env or as_json)
    if provider is None and model is None:
        if not asks:
            raise click.UsageError("say whose key it is: openclaw models auth openai --key-file FILE")
        answer = ask_model(call("models.setup"), check=not no_check)
        if answer is None:
            click.echo("Nothing was changed.")
        return
    if from_env:
        key = key_in_shell(provider or str(model).partition("/")[0])
    elif key_file is not None:
        key = read_key(key_file)
    elif asks:
        if offers_login(provider):
            note(f"`openclaw models login {provider}` signs in in a browser instead.")
        key = click.prompt(f"Key for {provider or model} (typed unseen)", hide_input=True).strip()
    else:
        raise click.UsageError("there is no terminal to type a key at: use --key-file or --from-env")
    what = given(provider=provider, model=model, apiKey=key)
    connect({**what, "check": not no_check, "use": not keep_model}, as_json)


@click.command("login")
@click.argument("provider", default="openrouter")
@MODEL
@KEEP_MODEL
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
@JSON
def login(provider: str, model: str | None, keep_model: bool, no_browser: bool, as_json: bool) -> None:
    """Sign in at PROVIDER in a browser instead of giving a key; openrouter is the one that offers it.

    With a browser on another machine: open the printed address there, and paste the address at which it ends here.
    """
    done = sign_in(provider, model=model, use=not keep_model, browser=not no_browser)
    show(done, _answer_line(done), as_json)


@click.command("add")
@click.argument("address")
@click.option("--model", metavar="NAME", help="The model there; the first it offers when left out.")
@click.option("--name", metavar="NAME", help="What the server is called here; server when left out.")
@KEY_FILE
@NO_CHECK
@JSON
def add(address: str, model: str | None, name: str | None, key_file: Any, no_check: bool, as_json: bool) -> None:
    """Use a model server by its ADDRESS, such as http://192.168.1.20:8000/v1 (any OpenAI-compatible one)."""
    key = read_key(key_file) if key_file is not None else None
    connect({**given(baseUrl=address, model=model, provider=name, apiKey=key), "check": not no_check}, as_json)


@click.command("set")
@click.argument("model")
@NO_CHECK
@JSON
def choose(model: str, no_check: bool, as_json: bool) -> None:
    """Use MODEL from now on: provider/model or an alias. It is tried first."""
    connect({"model": model, "check": not no_check}, as_json)


@click.command("test")
@click.argument("model", required=False)
@JSON
def test(model: str | None, as_json: bool) -> int:
    """Ask MODEL, or the one that would answer now, one small question."""
    found = call("models.test", given(model=model), timeout=CONNECT_SECONDS)
    show(found, _answer_line(found), as_json)
    return 0 if found["ok"] else 1


def connect(params: Mapping[str, Any], as_json: bool = False) -> dict[str, Any]:
    """Tries what is given, keeps it, and shows the answer."""
    if not as_json and params.get("check", True):
        what = params.get("baseUrl") or params.get("model") or params.get("provider")
        note(f"asking {what} …")
    done: dict[str, Any] = call("models.connect", params, timeout=CONNECT_SECONDS)
    show(done, _answer_line(done), as_json)
    return done


def _answer_line(found: Mapping[str, Any]) -> str:
    if not found["ok"]:
        return f"{found['model']} does not answer: {found['error']}"
    if not found.get("ms"):
        return f"{found['model']} is kept; it was not tried."
    said = f": {found['answer']}" if found.get("answer") else ""
    return f"{found['model']} answers{said}  ({found['ms'] / 1000:.1f} s)"


def read_key(file: Any) -> str:
    """The key in the first line of a file."""
    key = str(file.readline()).strip()
    if not key:
        raise click.ClickException(f"there is no key in {file.name}: its first line is empty")
    return key


def offers_login(provider: str | None) -> bool:
    facts = registry.load().provider(provider or "")
    return facts is not None and facts.login is not None


def key_in_shell(provider: str) -> str:
    """The key of a provider in this shell's environment."""
    facts = registry.load().provider(provider)
    names = facts.env if facts is not None else ()
    key = next((os.environ[name].strip() for name in names if os.environ.get(name, "").strip()), "")
    if not key:
        wanted = " or ".join(names) or "no variable that we know"
        raise click.ClickException(f"{provider} has its key in {wanted}, and this shell has none set")
    return key


# The question.


class _Choice(NamedTuple):
    label: str
    params: dict[str, Any]
    """Of `models.connect`."""
    asks_key: bool = False


SIGN_IN = "sign in"
"""Instead of a key: the person signs in in a browser."""


def ask_model(setup: Mapping[str, Any], *, check: bool = True, title: str = "Which model shall answer?") -> Any:
    """Asks for a model until one answers; gives what `models.connect` gave, or None when the person skips it."""
    choices = [
        _Choice(
            f"{each['provider']}/{each['model']} (on this machine)", {"model": f"{each['provider']}/{each['model']}"}
        )
        for each in setup["local"]
    ]
    for each in setup["providers"]:
        if each["defaultModel"]:
            mark = " (has a key)" if each["hasKey"] and each["needsKey"] else ""
            label = f"{each['id']}{mark}"
            choices.append(_Choice(label, {"provider": each["id"]}, each["needsKey"]))
    click.echo(title)
    click.echo(f"   [Enter] as it is: {setup['model'] or 'none'} ({setup['why']})")
    click.echo(columns([each.label for each in choices]))
    click.echo("   or the address of a server of yours, such as http://192.168.1.20:8000/v1")
    while True:
        typed = click.prompt("   number, name, provider/model or address", default="", show_default=False).strip()
        if not typed:
            return None
        params = _asked_for(typed, choices, setup)
        if params is None:
            continue
        try:
            if params.pop(SIGN_IN, False):
                done = sign_in(params.get("provider", ""), model=params.get("model"))
                say(_answer_line(done))
                return done
            return connect({**params, "check": check})
        except OpenClawError as error:
            say(f"   {error.message.rstrip('.')}.")


def _asked_for(typed: str, choices: list[_Choice], setup: Mapping[str, Any]) -> dict[str, Any] | None:
    """What to connect for the answer that was typed; None when the person goes back."""
    if typed.startswith(("http://", "https://")):
        key = click.prompt("   its key (Enter: none)", default="", show_default=False, hide_input=True).strip()
        return given(baseUrl=typed, apiKey=key or None)
    if typed.isdecimal() and 0 < int(typed) <= len(choices):
        chosen = choices[int(typed) - 1]
    else:
        provider = typed.partition("/")[0].lower()
        known = next((each for each in setup["providers"] if each["id"] == provider), None)
        params = {"model": typed} if "/" in typed else {"provider": typed.lower()}
        chosen = _Choice(typed, params, known is not None)
    if not chosen.asks_key:
        return chosen.params
    name = chosen.params.get("provider") or str(chosen.params["model"]).partition("/")[0]
    facts: Mapping[str, Any] = next((each for each in setup["providers"] if each["id"] == name), {})
    has_key = bool(facts.get("hasKey") and facts.get("needsKey"))
    if facts.get("keyUrl") and not has_key:
        click.echo(f"   keys are made at {facts['keyUrl']}")
    if has_key:
        hint = "Enter keeps the one that is there"
    elif facts.get("login"):
        hint = "Enter signs in in a browser"
    else:
        hint = "Enter goes back" if facts.get("needsKey") else "Enter: none"
    key = click.prompt(f"   key for {name} ({hint})", default="", show_default=False, hide_input=True).strip()
    if not key and not has_key and facts.get("login"):
        return {"provider": name, **chosen.params, SIGN_IN: True}
    if not key and not has_key and facts.get("needsKey"):
        return None
    return {**chosen.params, **given(apiKey=key or None)}


def columns(names: list[str]) -> str:
    """Numbered names in columns, so that the question fits a small screen."""
    cells = [f"{place:>2} {name}" for place, name in enumerate(names, 1)]
    rows = -(-len(cells) // 3)
    parts = [cells[start : start + rows] for start in range(0, len(cells), rows)]
    widths = [max(map(len, part)) for part in parts]
    lines = []
    for row in range(rows):
        shown = [part[row].ljust(width) for part, width in zip(parts, widths, strict=True) if row < len(part)]
        lines.append(f"   {'   '.join(shown)}".rstrip())
    return "\n".join(lines)
