"""`openclaw approvals`, `exec-policy`, `labels` and `sandbox`: who may run what, and where."""

import asyncio
import difflib
import os
import re
import secrets
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.agent.settings import agent_ids, default_agent, resolve_agent
from openclaw.cli.client import call_running
from openclaw.cli.home import open_editor, read_home
from openclaw.cli.render import JSON, YES, ago, note, now_ms, print_json, show, table
from openclaw.config.live import LiveConfig
from openclaw.config.load import LoadedConfig
from openclaw.core.errors import InvalidRequest, NotFound, Unavailable
from openclaw.core.keys import DEFAULT_AGENT, normalise_agent, parse_session_key
from openclaw.core.text import strip_unprintable
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.runs.toolset import USUAL, exec_policy
from openclaw.security import labels
from openclaw.security.approvals import ApprovalFile
from openclaw.security.exec_policy import stricter
from openclaw.security.label_service import labelled_files
from openclaw.security.sandboxes.service import (
    RECIPE,
    SandboxService,
    explain_sandbox,
    list_sandboxes,
    recreate_sandbox,
)
from openclaw.workspace.seed import workspace_of

AGENT = click.option("--agent", "agent_id", metavar="ID", help="Which agent (default: all for list, else main).")


# `openclaw approvals`.


@click.group("approvals")
def approvals_command() -> None:
    """Answer questions about commands; see and take back what was allowed for good."""


@approvals_command.command("list")
@AGENT
@JSON
def list_grants(agent_id: str | None, as_json: bool) -> None:
    """What was allowed for good, by agent."""
    grants = [
        {"agent": name, **entry}
        for name, agent in sorted(_approvals().read().agents.items())
        for entry in agent.allowlist
        if agent_id in (None, name)
    ]
    none = "Nothing is allowed for good. Answer a question with always, or: openclaw approvals allowlist add PATTERN"
    rows = [(each.get("id") or "-", each["agent"], each["pattern"], _arguments(each)) for each in grants]
    show(grants, table(rows, ("id", "agent", "program", "arguments"), empty=none), as_json)


def _arguments(grant: dict[str, Any]) -> str:
    pattern = str(grant.get("argPattern") or "any")
    return f"exactly: {grant.get('lastUsedCommand')}" if pattern.startswith("sha256:") else pattern


@approvals_command.command("get")
@JSON
def get(as_json: bool) -> None:
    """The whole document, with the hash that `set --base-hash` takes."""
    file = _approvals()
    print_json({"hash": file.hash, "file": file.shown()} if as_json else file.shown())


@approvals_command.command("set")
@click.option("--file", "source", type=click.Path(exists=True, dir_okay=False), help="Read it from this file.")
@click.option("--stdin", is_flag=True, help="Read it from standard input.")
@click.option("--base-hash", metavar="HASH", help="Only if it has not changed since.")
def set_document(source: str | None, stdin: bool, base_hash: str | None) -> None:
    """Put another document in place of the one there is."""
    if bool(source) == stdin:
        raise click.UsageError("give either --file PATH or --stdin")
    data = Path(source).read_bytes() if source else sys.stdin.buffer.read()
    try:
        document = msgspec.json.decode(data, type=dict[str, Any])
    except ValueError as error:
        raise InvalidRequest(f"that is not a JSON object: {error}") from error
    _approvals().put(document, base_hash, now_ms())
    click.echo("the approvals are set")


@approvals_command.command("review")
@click.option("--accept", is_flag=True, help="The file holds as it is.")
@click.option("--reject", is_flag=True, help="Put the file back as it was.")
def approvals_review(accept: bool, reject: bool) -> None:
    """Look at a change of the approvals that another program made; until then it allows nothing."""
    file = _approvals()
    if not file.is_changed():
        click.echo("Nobody has changed the approvals behind us.")
        return
    before, after = file.versions()
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), "accepted", "as it is", lineterm=""):
        click.echo(strip_unprintable(line))
    if accept == reject:
        if accept:
            raise click.UsageError("give --accept or --reject, not both")
        accept = click.confirm("Did you make this change, and shall it hold?")
    if accept:
        file.accept()
        click.echo("accepted")
    elif reject or click.confirm("Put the file back as it was?"):
        file.reject()
        click.echo("put back")


@approvals_command.group("allowlist")
def allowlist() -> None:
    """Programs that run without being asked about."""


@allowlist.command("add")
@click.argument("pattern")
@click.option("--args", "arguments", metavar="REGEX", help="Only with arguments like this.")
@AGENT
def add(pattern: str, arguments: str | None, agent_id: str | None) -> None:
    """Let a program run without being asked about: its name, or a path that may hold * and ?."""
    if not pattern.strip():
        raise InvalidRequest("name a program: git, or /usr/bin/git")
    try:
        re.compile(arguments or "")
    except re.error as error:
        raise InvalidRequest(f"--args is not a regular expression: {error}") from error
    entry = {"id": secrets.token_hex(4), "pattern": pattern.strip(), **({"argPattern": arguments} if arguments else {})}
    _approvals().allow(normalise_agent(agent_id or DEFAULT_AGENT), [entry], now_ms())
    click.echo(f"{entry['id']}: {pattern} runs without being asked about; code in its arguments still is")


@allowlist.command("remove")
@click.argument("wanted", metavar="ID_OR_PATTERN")
@AGENT
def remove(wanted: str, agent_id: str | None) -> None:
    """Take back what was allowed for good: by its id, or its pattern."""
    for agent, entry in _approvals().withdraw(wanted, agent_id, now_ms()):
        click.echo(f"taken back from {agent}: {entry['pattern']} ({_arguments(entry)})")


@approvals_command.command("pending")
@JSON
def pending(as_json: bool) -> None:
    """Questions of the running gateway that wait for an answer."""
    found = _ask("exec.approval.list")
    asked = "{id}  {request[agentId]}  in {request[cwd]}\n    {request[command]}\n    {request[warningText]}"
    show(found, [asked.format_map(question) for question in found] or "No question waits.", as_json)


@approvals_command.command("resolve")
@click.argument("wanted", metavar="ID")
@click.argument("decision", type=click.Choice(["allow-once", "allow-always", "deny"]))
def resolve(wanted: str, decision: str) -> None:
    """Answer the question ID of the running gateway."""
    _ask("exec.approval.resolve", id=wanted, decision=decision)
    click.echo(f"{wanted}: {decision}")


def _approvals() -> ApprovalFile:
    return ApprovalFile(Environment.of_process().home.state / "exec-approvals.json")


def _ask(method: str, **params: Any) -> Any:
    absent = "the gateway is not running, so no question waits: openclaw gateway start"
    return call_running(method, params, absent=absent)


# `openclaw exec-policy`.

PRESETS = {
    "yolo": ("full", "off", "everything runs, nobody is asked"),
    "cautious": ("allowlist", "on-miss", "what is not on the list is asked about"),
    "deny-all": ("deny", "off", "nothing runs"),
}


@click.group("exec-policy")
def exec_policy_command() -> None:
    """What may run, and who is asked."""


@exec_policy_command.command("show")
@JSON
def show_policy(as_json: bool) -> None:
    """What holds for each agent, the approvals file included."""
    config = read_home()[1].config
    file = _approvals().read()
    own = {normalise_agent(entry.id): entry.tools.exec for entry in config.agents.list}
    policies = []
    for agent in agent_ids(config.agents):
        wanted = exec_policy(config.tools.exec, own.get(agent, USUAL.exec))
        held = wanted
        for layer in (file.defaults, file.agents.get(agent)):
            if layer is not None:
                held = stricter(held, (layer.security or "full", layer.ask or "off"))
        policies.append({"agent": agent, "security": held[0], "ask": held[1], "configured": list(wanted)})
    rows = [(each["agent"], each["security"], each["ask"]) for each in policies]
    show(policies, table(rows, ("agent", "security", "ask")), as_json)


@exec_policy_command.command("set")
@click.option("--security", type=click.Choice(["deny", "allowlist", "full"]), help="What runs at all.")
@click.option("--ask", type=click.Choice(["off", "on-miss", "always"]), help="When a person is asked.")
def set_policy(security: str | None, ask: str | None) -> None:
    """Set what runs and who is asked, for all agents that have nothing of their own."""
    if security is None and ask is None:
        raise click.UsageError("give --security, --ask or both")
    _write({name: value for name, value in (("security", security), ("ask", ask)) if value})


@exec_policy_command.command("preset")
@click.argument("name", type=click.Choice(list(PRESETS)))
def preset(name: str) -> None:
    """Set both in one word: yolo, cautious or deny-all."""
    security, ask, meaning = PRESETS[name]
    _write({"security": security, "ask": ask})
    click.echo(f"{name}: {meaning}")


def _write(values: dict[str, str]) -> None:
    open_editor().patch({"tools": {"exec": values}})
    click.echo(", ".join(f"tools.exec.{name} is {value}" for name, value in values.items()))


# `openclaw labels`.


@click.group("labels")
def labels_command() -> None:
    """Text from elsewhere: the table that holds it, and the files it was written to."""


@labels_command.command("table")
@JSON
def label_table(as_json: bool) -> None:
    """What a call may do, by the label of what the model has read, as it is configured here."""
    settings = read_home()[1].config.security.external_content
    rules = labels.build_table(settings.table, settings.taint_tools)
    show({deed: dict(row) for deed, row in rules.items()}, labels.render_table(rules), as_json)


@labels_command.command("list")
@JSON
def list_files(as_json: bool) -> None:
    """Files that tools wrote while text from elsewhere was in the conversation."""
    found = sorted(labelled_files(Environment.of_process().home.state).all().items())
    document = [
        {"path": path, "origins": [{"label": each.label, "source": each.source} for each in origins]}
        for path, origins in found
    ]
    lines = (f"{path}: {'; '.join(f'{each.label} ({each.source})' for each in origins)}" for path, origins in found)
    show(document, lines, as_json)
    if not found and not as_json:
        note("no file carries a label")


@labels_command.command("clear")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
def clear(paths: tuple[str, ...]) -> None:
    """Say that you have looked at PATHS and that they are as good as your own."""
    files = labelled_files(Environment.of_process().home.state)
    real = [os.path.realpath(path) for path in paths]
    known = files.all()
    missing = [path for path in real if path not in known]
    if missing:
        raise NotFound(f"{missing[0]} carries no label: `openclaw labels list` shows which files do")
    files.clear(real)
    click.echo(f"{len(real)} file(s) carry no label any more")


# `openclaw sandbox`.


@click.group("sandbox")
def sandbox_command() -> None:
    """Explain, list and renew the boxes in which agents work."""


@sandbox_command.command("explain")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent (default: the default one).")
@click.option("--session", metavar="KEY", help="Which session (default: the main one).")
@JSON
def explain(agent_id: str | None, session: str | None, as_json: bool) -> None:
    """Whether a session is in a box, what it sees there, and why."""
    boxes, loaded = _sandboxes()
    config = loaded.config
    agent = resolve_agent(config.agents, agent_id or default_agent(config.agents)).id
    key = parse_session_key(session or "main", agent, config.session.main_key)
    resolve_agent(config.agents, key.agent)
    document = asyncio.run(explain_sandbox(boxes, config.tools, key))
    lines = (
        f"{name:<16} {line}"
        for name, value in document.items()
        for line in (value if isinstance(value, list) else [value])
    )
    show(document, lines, as_json)


@sandbox_command.command("list")
@JSON
def list_boxes(as_json: bool) -> None:
    """The boxes there are, with when they were last used."""
    boxes, loaded = _sandboxes()
    found = asyncio.run(list_sandboxes(boxes, loaded.config.agents))
    now = SystemClock().now()
    rows = [(each["name"], each["engine"], each["state"], ago(each["usedAt"], now), each["path"]) for each in found]
    none = "No box was used yet. openclaw sandbox explain says which sessions would get one."
    show(found, table(rows, ("box", "engine", "state", "last used", "files"), empty=none), as_json)


@sandbox_command.command("recreate")
@click.argument("names", nargs=-1, metavar="[BOX]…")
@click.option("--all", "everything", is_flag=True, help="Every box.")
@YES
def recreate(names: tuple[str, ...], everything: bool, yes: bool) -> None:
    """End what runs in boxes and empty their home and /tmp. Their workspaces stay."""
    boxes, loaded = _sandboxes()
    found = {each["name"]: each for each in asyncio.run(list_sandboxes(boxes, loaded.config.agents))}
    if not names and not everything:
        raise InvalidRequest("name a box, or give --all: openclaw sandbox list shows them")
    for name in names:
        if name not in found:
            raise NotFound(f"there is no box {name!r}: openclaw sandbox list shows them")
    chosen = list(found) if everything else list(names)
    if not yes:
        click.confirm(f"End what runs in {len(chosen)} box(es) and empty their home and /tmp?", abort=True, err=True)
    for name in chosen:
        asyncio.run(recreate_sandbox(boxes, loaded.config.agents, found[name]))
        click.echo(f"{name} is new")


@sandbox_command.command("build")
@click.option("--engine", type=click.Choice(["docker", "podman"]), default="docker", help="Which engine.")
@click.option("--print", "only_print", is_flag=True, help="Print the recipe instead.")
def build(engine: str, only_print: bool) -> None:
    """Build the image for containers. The process backend needs none."""
    if only_print:
        click.echo(RECIPE, nl=False)
        return
    boxes, loaded = _sandboxes()
    image = boxes.rules(default_agent(loaded.config.agents)).image
    try:
        done = subprocess.run([engine, "build", "--tag", image, "-"], input=RECIPE.encode(), check=False)
    except FileNotFoundError as error:
        why = f"{engine} is not installed: install it, or use the process backend with bubblewrap"
        raise Unavailable(why) from error
    if done.returncode:
        raise Unavailable(f"{engine} build failed (see above); is its engine running?")
    click.echo(f"{image} is built")


def _sandboxes() -> tuple[SandboxService, LoadedConfig]:
    environment, loaded = read_home()
    live = LiveConfig(loaded)
    boxes = SandboxService(
        live.agents,
        live.tools,
        live.commands,
        live.variables,
        home=environment.home_dir,
        state=environment.home.state,
        workspace=partial(workspace_of, loaded.config.agents, environment=environment),
        skills=_no_skills,
    )
    return boxes, loaded


def _no_skills(agent_id: str, workspace: Path) -> list[tuple[str, str]]:
    return []
