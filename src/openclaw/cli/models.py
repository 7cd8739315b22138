"""`openclaw models`: list models, show which one would answer now, connect others."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, note, now_ms, show, table
from openclaw.cli.setup import model_setup
from openclaw.cli.setup.model_home import load_model_set, local_servers
from openclaw.cli.talk.message import connect_running, shell_key_hint
from openclaw.core.errors import AuthFailed
from openclaw.gateway.running import running_gateway
from openclaw.models import credentials
from openclaw.models.discover import Probe
from openclaw.models.model_set import ModelSet
from openclaw.models.refs import ModelRef
from openclaw.models.registry import is_private_address
from openclaw.process.environment import Environment, Home


@click.group("models")
def models_command() -> None:
    """Which models there are, and which one would answer now."""


for command in (model_setup.auth, model_setup.login, model_setup.add, model_setup.choose, model_setup.test):
    models_command.add_command(command)


@models_command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those there is no key for.")
@click.option("--provider", help="Only the models of this provider.")
@JSON
def list_models(everything: bool, provider: str | None, as_json: bool) -> None:
    """The models that can be used; with --all every one we know."""
    _, found, served = _here()
    rows = [row for row in model_rows(found, served, provider) if everything or row["available"]]
    if not (rows or as_json):
        whose = f" of {provider}" if provider else ""
        click.echo(f"There is no key for a model{whose}. `openclaw models list --all` shows what there is.")
        return
    usable = {True: "yes", False: "no key"}
    cells = [
        (row["key"], row["input"], f"{row['contextWindow']:,}", usable[row["available"]], ", ".join(row["tags"]))
        for row in rows
    ]
    listed = table(cells, ("model", "reads", "window", "usable", ""))
    show({"count": len(rows), "models": rows}, listed, as_json)
    if not (everything or as_json):
        note("Models there is a key for. `openclaw models list --all` shows the others.")


@models_command.command("status")
@JSON
@click.option("--probe", is_flag=True, help="Also ask the model servers on this machine what they serve.")
def status(as_json: bool, probe: bool) -> None:
    """Which model would answer now and why, and where each key comes from."""
    home, found, served = _here()
    report = status_report(home.config, found)
    if running_gateway(home.state) is not None:
        report["gateway"] = asyncio.run(_ask_gateway())
    if probe:
        report["local"] = [
            {"provider": item.provider, "address": item.address, "model": item.model} for item in served()
        ]
    show(report, _status_lines(report), as_json)


async def _ask_gateway() -> dict[str, str]:
    """The model that answers through the running gateway, whose environment is its own."""
    async with connect_running(Environment.of_process()) as client:
        found = await client.call("models.setup", {})
        hint = "" if found["configured"] else shell_key_hint()
        return {"model": found["model"], "why": found["why"], "hint": hint}


def model_rows(found: ModelSet, served: Probe, provider: str | None = None) -> list[dict[str, Any]]:
    """One row per model: the default first, then what local servers offer, then everything else."""
    wanted = found.registry.provider(provider).id if provider else None
    known = {facts.id for facts in found.registry.providers}
    local = [ModelRef(item.provider, item.model) for item in served() if item.provider in known]
    others = [ModelRef(model.provider, model.id) for model in found.registry.list()]
    aliases, _ = found.aliases()
    usable: dict[str, bool] = {}
    rows = []
    for ref in dict.fromkeys((_plain(found.default), *map(_plain, found.fallbacks), *local, *others)):
        if wanted not in (None, ref.provider):
            continue
        model = found.model(ref)
        if ref.provider not in usable:
            usable[ref.provider] = found.has_key(ref.provider, now_ms())
        here = is_private_address(model.base_url) or model.api == "offline"
        tags = _tags(found, ref, aliases, running=ref in local)
        facts = {"input": "+".join(model.input), "contextWindow": model.context_window, "local": here}
        rows.append({"key": ref.key, "name": model.name, **facts, "available": usable[ref.provider], "tags": tags})
    return rows


def _plain(ref: ModelRef) -> ModelRef:
    return ModelRef(ref.provider, ref.model)


def _tags(found: ModelSet, ref: ModelRef, aliases: Mapping[str, ModelRef], *, running: bool) -> list[str]:
    tags = ["default"] if ref == _plain(found.default) else []
    tags += [f"fallback#{place}" for place, other in enumerate(found.fallbacks, 1) if _plain(other) == ref]
    tags += [f"alias:{alias}" for alias, target in aliases.items() if target.key == ref.key]
    if ref in found.registry.configured():
        tags.append("configured")
    if running:
        tags.append("running")
    if found.registry.deprecated(found.model(ref)):
        tags.append("deprecated")
    return tags


def status_report(config_path: Path, found: ModelSet) -> dict[str, Any]:
    """What `status --json` prints; contains no credential, only where each was found."""
    now = now_ms()
    aliases, broken_aliases = found.aliases()
    providers, resting = [], []
    problems = list(broken_aliases)
    in_use = dict.fromkeys(ref.provider for ref in found.chain())
    for facts in found.registry.providers:
        broken = credentials.unusable(facts, found.keyring, now)
        resting += [{"profileId": item.profile_id, "provider": facts.id, "why": item.why} for item in broken]
        try:
            first, *more = credentials.list_credentials(facts, found.keyring, now)
        except AuthFailed as error:
            if facts.id in in_use:
                problems.append(error.message)
            continue
        if first.kind != "none" or facts.id in in_use or facts.configured:
            providers.append({"provider": facts.id, "source": first.source, "others": [item.source for item in more]})
    pinned = found.default
    if pinned.profile is not None:
        try:
            found.credentials(pinned, now)
        except AuthFailed as error:
            problems.append(error.message)
    return {
        "configPath": str(config_path),
        "defaultModel": found.primary,
        "resolvedDefault": found.default.key,
        "why": found.pick.why,
        "fallbacks": [str(ref) for ref in found.fallbacks],
        "aliases": {alias: str(ref) for alias, ref in aliases.items()},
        "allowed": [],
        "auth": {"providers": providers, "unusableProfiles": resting, "problems": problems},
    }


def _status_lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"Model      {report['resolvedDefault']}  ({report['why']})"
    if report["resolvedDefault"] == "offline/offline":
        yield "           It only explains how to set up a real one: openclaw models auth asks for a key and tries it,"
        yield "           openclaw models add ADDRESS takes a server of yours, and Ollama, LM Studio, llama.cpp or vLLM"
        yield "           on this machine is found when it is started."
    there = report.get("gateway") or {}
    if there and there["model"] != report["resolvedDefault"]:
        yield f"Gateway    {there['model']}  ({there['why']}): the one that runs answers with this"
    if there.get("hint"):
        yield f"           {there['hint']}"
    yield f"Fallbacks  {', '.join(report['fallbacks']) or 'none'}"
    aliases = (f"{alias} = {ref}" for alias, ref in report["aliases"].items())
    yield f"Aliases    {', '.join(aliases) or 'none'}"
    yield f"Config     {report['configPath']}"
    auth = report["auth"]
    if auth["providers"]:
        yield "Keys"
    for item in auth["providers"]:
        others = f"  (also {', '.join(item['others'])})" if item["others"] else ""
        yield f"  {item['provider']:<18} {item['source']}{others}"
    for item in auth["unusableProfiles"]:
        yield f"  {item['profileId']:<18} cannot be used: {item['why']}"
    for problem in auth["problems"]:
        yield f"Problem    {problem}"
    if "local" in report:
        yield "On this machine"
        for item in report["local"]:
            yield f"  {item['provider']}/{item['model']}  ({item['address']})"
        if not report["local"]:
            yield "  no model server answers"


def _here() -> tuple[Home, ModelSet, Probe]:
    """The models of this home; local servers are probed once, and only when needed."""
    environment, loaded = read_home()
    served = local_servers(environment.environ)
    home = environment.home
    for problem in (*loaded.issues, *loaded.warnings):
        note(f"{home.config}: {problem}")
    return home, load_model_set(loaded.config, loaded.variables, home, served), served
