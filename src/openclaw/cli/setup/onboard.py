"""`openclaw onboard` and `openclaw setup`: at most five questions, and the assistant is ready. Safe to run again."""

import re
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.agent.settings import agent_ids, default_agent
from openclaw.channels.accounts import configured_accounts
from openclaw.channels.setup import SETUPS, ChannelSetup
from openclaw.cli.channels import ask_fields, describe_added
from openclaw.cli.client import call, given
from openclaw.cli.extensions.plugins import PluginView
from openclaw.cli.render import JSON, fold, note, show
from openclaw.cli.setup.gateway import gateway_up, web_address
from openclaw.cli.setup.model_setup import CONNECT_SECONDS, ask_model
from openclaw.config.edit import Editor
from openclaw.config.load import LoadedConfig, load
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.secret import Secret
from openclaw.core.text import strip_unprintable
from openclaw.gateway.running import running_gateway
from openclaw.gateway.status import service_manager
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.storage import atomic
from openclaw.workspace import files
from openclaw.workspace.seed import SeedResult, ensure, workspace_of

# Making the home.


def make_home(environment: Environment) -> list[SeedResult]:
    """Creates the home and the workspaces with their starter files; overwrites nothing."""
    environment.home.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    agents = load(environment.home, environment.environ).config.agents
    now = SystemClock().now()
    return [ensure(workspace_of(agents, agent, environment), now) for agent in agent_ids(agents)]


def start_home() -> str:
    """Creates the home and starts the gateway when none runs; gives one line with its address."""
    environment = Environment.of_process()
    make_home(environment)
    was_there = running_gateway(environment.home.state) is not None
    address = web_address(gateway_up(environment))
    stays = "" if was_there else " and stays in the background (openclaw gateway stop ends it)"
    return f"The gateway is on {address}{stays}; openclaw dashboard opens the web page."


# `openclaw onboard`.

EXEC = {
    "ask": ("ask me before a program runs that I have not allowed before", {"security": "allowlist", "ask": "on-miss"}),
    "never": ("never run commands", {"security": "deny", "ask": "off"}),
    "all": (
        "run everything without asking; whatever the assistant reads can make it do harm",
        {"security": "full", "ask": "off"},
    ),
}


@click.command("onboard")
@click.option("--non-interactive", is_flag=True, help="Ask nothing; what is not given stays as it is.")
@click.option("--model", metavar="REF", help="provider/model to use.")
@click.option("--auth-choice", "provider", metavar="PROVIDER", help="Whose key to use, such as anthropic or openai.")
@click.option("--api-key-file", type=click.File(), metavar="FILE", help="Read the key from FILE; - is standard input.")
@click.option("--name", help="What the assistant is called.")
@click.option(
    "--owner", "owners", multiple=True, metavar="CHANNEL:ID", help="Who you are on a channel; can be repeated."
)
@click.option("--skip-channels", is_flag=True, help="Do not ask about channels.")
@click.option("--exec-policy", type=click.Choice(list(EXEC)), help="What commands the assistant may run.")
@click.option("--install-daemon/--skip-daemon", "autostart", default=None, help="Start the gateway with this machine.")
@click.option("--workspace", metavar="DIR", help="Keep the assistant's files in DIR.")
@click.option("--skip-health", "skip_check", is_flag=True, help="Do not try the model.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; implies --non-interactive.")
def onboard_command(
    non_interactive: bool,
    model: str | None,
    provider: str | None,
    api_key_file: Any,
    name: str | None,
    owners: tuple[str, ...],
    skip_channels: bool,
    exec_policy: str | None,
    autostart: bool | None,
    workspace: str | None,
    skip_check: bool,
    as_json: bool,
) -> None:
    """Set the assistant up: model and key, name, channels, commands, autostart. Keys are typed unseen."""
    ask = not (non_interactive or as_json)
    if ask and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask questions in: use --non-interactive with what you want set")
    key = Secret(api_key_file.readline().strip()) if api_key_file is not None else None
    setup = _Setup(Environment.of_process(), quiet=as_json, check=not skip_check)
    if workspace is not None:
        setup.set("agents.defaults.workspace", str(Path(workspace).expanduser().resolve()))
    setup.make_home()
    if ask:
        setup.say("A few questions; Enter takes what stands in brackets. Ctrl-C leaves and keeps the answers.\n")
    setup.choose_model(provider, model, key, ask=ask)
    setup.choose_name(name, ask=ask)
    setup.choose_channels(owners, ask=ask and not skip_channels)
    setup.choose_exec(exec_policy, ask=ask)
    setup.choose_autostart(autostart, ask=ask)
    ready = "\nReady. Talk here with `openclaw`, or in a browser with `openclaw dashboard`."
    show({"ok": True, **setup.done}, fold(ready, sys.stdout), as_json)


class _Setup:
    """The answers; each is saved at once."""

    def __init__(self, environment: Environment, *, quiet: bool, check: bool) -> None:
        self._environment = environment
        self._editor = Editor(environment.home, environment.environ)
        self._quiet = quiet
        self._check = check
        self.done: dict[str, Any] = {}

    def say(self, text: str) -> None:
        if not self._quiet:
            click.echo(fold(text, sys.stdout))

    def set(self, path: str, value: Any) -> None:
        self._environment.home.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._editor.set(path, value)

    def make_home(self) -> None:
        made = make_home(self._environment)
        self.done["workspace"] = str(made[0].workspace) if made else None

    # Model and key.

    def choose_model(self, provider: str | None, model: str | None, key: Secret | None, *, ask: bool) -> None:
        if provider or model or key:
            if provider is None and model is None:
                raise InvalidRequest("say whose key it is: --auth-choice anthropic, for example")
            chosen = given(provider=provider, model=model, apiKey=key.reveal() if key else None)
            try:
                call("models.connect", {**chosen, "check": self._check}, timeout=CONNECT_SECONDS)
            except OpenClawError as error:
                raise InvalidRequest(f"{error.message}; --skip-health keeps it without trying") from error
        elif ask:
            ask_model(call("models.setup"), check=self._check, title="1. Which model shall answer?")
        found = call("models.setup")
        self.done |= {"model": found["model"], "why": found["why"]}
        self.say(f"   {found['model']} answers ({found['why']}).\n")

    def _load(self) -> LoadedConfig:
        return load(self._environment.home, self._environment.environ)

    # Name.

    def choose_name(self, name: str | None, *, ask: bool) -> None:
        agents = self._load().config.agents
        path = workspace_of(agents, default_agent(agents), self._environment) / "IDENTITY.md"
        text = path.read_text(errors="replace") if path.is_file() else ""
        before = files.parse(text).name
        if name is None and ask:
            default = before or "it picks one itself"
            typed = click.prompt("2. What shall the assistant be called?", default=default).strip()
            name = None if typed == default else typed
        if name and name != before:
            atomic.replace_file(path, with_name(text, " ".join(name.split())[:80]).encode(), mode=0o644)
        self.done["name"] = files.parse(path.read_text(errors="replace")).name if path.is_file() else ""

    # Channels.

    def choose_channels(self, owners: tuple[str, ...], *, ask: bool) -> None:
        """Connects a built-in channel, and asks who the owner is on the channels of plugins, when there is one."""
        if ask:
            self._connect_channels()
        now = self._load().config.commands.owner_allow_from
        plugin_channels, notes = available_channels()
        connected = list(self._load().config.channels)
        given = parse_owners(" ".join(owners), dict.fromkeys((*plugin_channels, *connected)))
        if not given and ask and plugin_channels:
            given = ask_owner(plugin_channels, now, self.say)
        elif ask:
            for line in [f"   {note}" for note in notes]:
                self.say(f"{line}\n")
        wanted = tuple(dict.fromkeys((*now, *given)))
        if wanted != now:
            self.set("commands.ownerAllowFrom", list(wanted))
        self.done |= {"channels": sorted(dict.fromkeys((*plugin_channels, *connected))), "owners": list(wanted)}

    def _connect_channels(self) -> None:
        """Asks where else to talk until the person has enough."""
        loaded = self._load()
        there = {channel for channel, _ in configured_accounts(loaded.config.channels, loaded.variables)}
        click.echo("3. Where else do you want to talk to it?")
        for place, setup in enumerate(SETUPS.values(), 1):
            click.echo(f"   {place} {setup.label}{' (is set up)' if setup.channel in there else ''}")
        click.echo("   Other places come as plugins: openclaw plugins install DIRECTORY")
        while True:
            typed = click.prompt("   number or name (Enter: nowhere else for now)", default="", show_default=False)
            chosen = _choose(typed.strip().lower(), list(SETUPS))
            if not typed.strip():
                return
            if chosen is None:
                click.echo(f"   {typed.strip()} is none of {', '.join(SETUPS)}")
            else:
                self._connect_channel(SETUPS[chosen])

    def _connect_channel(self, setup: ChannelSetup) -> None:
        """Asks for a credential and tries it, until it opens the account or the person gives up."""
        click.echo(fold(f"   {setup.first} (Enter goes back)", sys.stdout))
        while True:
            given = ask_fields(setup, {}, indent="   ")
            if not any(each.key in given for each in setup.fields if each.opens):
                return
            self.say(f"   asking {setup.label} …")
            try:
                answer = call("channels.add", {"channel": setup.channel, **given}, timeout=90.0)
            except OpenClawError as error:
                click.echo(f"   {strip_unprintable(error.message.rstrip('.'))}. Nothing was kept.")
                continue
            for line in describe_added(setup, answer):
                click.echo(fold(f"   {strip_unprintable(line)}", sys.stdout))
            return

    # Commands.

    def choose_exec(self, policy: str | None, *, ask: bool) -> None:
        now = self._load().config.tools.exec
        current = next((name for name, (_, is_) in EXEC.items() if is_["security"] == now.security), "ask")
        if policy is None and ask:
            click.echo("4. It can run commands on this machine, with your rights. What may it run?")
            for place, (name, (text, _)) in enumerate(EXEC.items(), 1):
                click.echo(f"   {place} {text}{' (as it is)' if name == current else ''}")
            kinds = list(EXEC)
            typed = click.prompt("   number", type=click.IntRange(1, len(EXEC)), default=kinds.index(current) + 1)
            policy = kinds[typed - 1]
        if policy is not None and policy != current:
            for key, value in EXEC[policy][1].items():
                self.set(f"tools.exec.{key}", value)
        self.done["execPolicy"] = policy or current

    # Autostart.

    def choose_autostart(self, wanted: bool | None, *, ask: bool) -> None:
        services = service_manager(self._environment)
        installed = services.state().installed
        if services.manager == "background":
            if wanted:
                raise InvalidRequest("nothing on this machine can start a service of yours: run `openclaw gateway run`")
        elif wanted is None and ask and not installed:
            wanted = click.confirm("5. Start the gateway with this machine?", default=True)
        if wanted and not installed:
            services.install()
        elif wanted is False and installed:
            services.uninstall()
        self.done["autostart"] = services.state().installed


def _choose(typed: str, names: Sequence[str]) -> str | None:
    """The name that was typed, or whose number was."""
    if typed.isdecimal() and 0 < int(typed) <= len(names):
        return names[int(typed) - 1]
    return typed if typed in names else None


def with_name(text: str, name: str) -> str:
    """An IDENTITY.md with this name in it."""
    line = re.compile(r"^(\s*[-*]\s*(?:\*\*)?\s*name\s*:?\s*(?:\*\*)?\s*:?)[^\n]*$", re.IGNORECASE | re.MULTILINE)
    if found := line.search(text):
        start, end = found.span()
        return f"{text[:start]}{found[1].rstrip()} {name}{text[end:]}"
    return f"{text.rstrip()}\n\n- Name: {name}\n".lstrip()


# Channels and owners.


def available_channels() -> tuple[dict[str, str], list[str]]:
    """The channels of enabled plugins, each with its plugin; and notes about those that are not."""
    here = PluginView()
    running: dict[str, str] = {}
    notes = []
    for plugin in here.found:
        verdict = here.verdicts[plugin.id]
        if verdict.runs:
            running |= dict.fromkeys(plugin.manifest.channels, plugin.id)
        elif plugin.manifest.channels:
            notes.append(f"{', '.join(plugin.manifest.channels)} could be one, but {verdict.why}")
    return running, notes


def parse_owners(text: str, channels: Collection[str]) -> tuple[str, ...]:
    """Parses a typed list of `channel:id`; raises with what is wrong."""
    given = [part for part in text.replace(",", " ").split() if part]
    for each in given:
        channel, _, name = each.partition(":")
        if not name or channel not in channels:
            known = " or ".join(f"{known}:your-id" for known in channels) or "a channel; none is connected yet"
            raise InvalidRequest(f"{each!r} names nobody on a channel: write {known}")
    return tuple(dict.fromkeys(given))


def ask_owner(channels: Collection[str], now: Sequence[str], say: Callable[[str], None]) -> tuple[str, ...]:
    """Asks for the owner until the answer is valid."""
    here = [each for each in now if each.partition(":")[0] in channels]
    say(f"   You can also talk to it on: {', '.join(strip_unprintable(each) for each in channels)}.")
    say("   Strangers are not heard there until you let them in. Who are you there?")
    first = next(iter(channels))
    hint = f"as it is: {strip_unprintable(', '.join(here))}" if here else "nobody for now"
    while True:
        typed = click.prompt(f"   such as {first}:your-id (Enter: {hint})", default="", show_default=False)
        try:
            return parse_owners(typed, channels)
        except InvalidRequest as error:
            say(f"   {strip_unprintable(error.message)}")


# `openclaw setup`.


@click.command("setup")
@click.option("--workspace", metavar="DIR", help="Keep the default agent's files in DIR (remembered in the config).")
@JSON
def setup_command(workspace: str | None, as_json: bool) -> None:
    """Make the home and the workspace with its starter files. Safe to run again: nothing is overwritten."""
    environment = Environment.of_process()
    home = environment.home
    home.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    if workspace is not None:
        directory = str((environment.cwd / Path(workspace).expanduser()).resolve())
        Editor(home, environment.environ).set("agents.defaults.workspace", directory)
    made = make_home(environment)
    lines = [f"home       {home.state}"]
    for seeded in made:
        what = f"made {', '.join(seeded.created)}" if seeded.created else "nothing was missing"
        lines.append(f"workspace  {seeded.workspace}: {what}")
        for line in () if as_json else seeded.notes:
            note(line)
    lines.append('Say hello: openclaw agent --message "hello"')
    show({"stateDir": str(home.state), "workspaces": msgspec.to_builtins(made)}, lines, as_json)
