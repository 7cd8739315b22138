"""`openclaw onboard`: at most five questions, and the assistant is ready. Can be run again at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig
    from openclaw.core.secret import Secret
    from openclaw.gateway.surroundings import Environment
    from openclaw.models.refs import ModelRef
    from openclaw.models.situation import ModelSet

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
def command(
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
    import sys
    from pathlib import Path

    from openclaw.cli.output import print_json
    from openclaw.core.secret import Secret
    from openclaw.gateway.surroundings import Environment

    ask = not (non_interactive or as_json)
    if ask and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask questions in: use --non-interactive with what you want set")
    key = Secret(api_key_file.readline().strip()) if api_key_file is not None else None
    setup = _Setup(Environment.of_process(), quiet=as_json, check=not skip_check)
    if workspace is not None:
        setup.set("agents.defaults.workspace", str(Path(workspace).expanduser().resolve()))
    setup.make_home()
    if ask:
        click.echo("A few questions; Enter takes what stands in brackets. Ctrl-C leaves and keeps the answers.\n")
    setup.choose_model(provider, model, key, ask=ask)
    setup.choose_name(name, ask=ask)
    setup.choose_channels(owners, ask=ask and not skip_channels)
    setup.choose_exec(exec_policy, ask=ask)
    setup.choose_autostart(autostart, ask=ask)
    if as_json:
        print_json({"ok": True, **setup.done})
        return
    click.echo("\nReady. Talk here with `openclaw`, or in a browser with `openclaw dashboard`.")


class _Setup:
    """The answers as they come, each one kept at once."""

    def __init__(self, surroundings: Environment, *, quiet: bool, check: bool) -> None:
        from openclaw.config.edit import Editor

        self._surroundings = surroundings
        self._editor = Editor(surroundings.home, surroundings.environ)
        self._quiet = quiet
        self._check = check
        self.done: dict[str, Any] = {}

    def say(self, text: str) -> None:
        if not self._quiet:
            click.echo(text)

    def set(self, path: str, value: Any) -> None:
        self._surroundings.home.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._editor.set(path, value)

    def make_home(self) -> None:
        from openclaw.cli.first import make_home

        made = make_home(self._surroundings)
        self.done["workspace"] = str(made[0].workspace) if made else None

    # Model and key.

    def choose_model(self, provider: str | None, model: str | None, key: Secret | None, *, ask: bool) -> None:
        from openclaw.core.errors import InvalidRequest

        situation = self._situation()
        if provider or model or key:
            ref = situation.resolve(model) if model else None
            provider = provider or (ref.provider if ref else None)
            if provider is None:
                raise InvalidRequest("say whose key it is: --auth-choice anthropic, for example")
            if problem := self._adopt(provider, ref, key):
                raise InvalidRequest(f"{problem}. Nothing was kept; --skip-health keeps it without trying")
        elif ask:
            self._ask_model(situation)
        found = self._situation()
        self.done |= {"model": str(found.default), "why": found.pick.why}
        self.say(f"   {found.default} answers ({found.pick.why}).\n")

    def _ask_model(self, situation: ModelSet) -> None:
        """Question one, until a model answers or the person goes on without."""
        from openclaw.core.errors import OpenClawError

        now = _now()
        known = [facts for facts in situation.registry.providers if facts.default_model and facts.id != "offline"]
        click.echo("1. Which model shall answer?")
        click.echo(f"   [Enter] as it is: {situation.default} ({situation.pick.why})")
        click.echo(
            _columns([f"{facts.id}{' (has a key)' if situation.has_key(facts.id, now) else ''}" for facts in known])
        )
        while True:
            typed = click.prompt("   number, name or provider/model", default="", show_default=False).strip()
            if not typed:
                return
            named = next((facts.id for facts in known if facts.id == typed.lower()), None)
            if typed.isdecimal() and 0 < int(typed) <= len(known):
                named = known[int(typed) - 1].id
            if named is not None:
                provider, ref = named, None
            else:
                try:
                    ref = situation.resolve(typed)
                except OpenClawError as error:
                    click.echo(f"   {error.message}")
                    continue
                provider = ref.provider
            if self._ask_key(situation, provider, ref, now):
                return

    def _ask_key(self, situation: ModelSet, provider: str, ref: ModelRef | None, now: int) -> bool:
        from openclaw.core.secret import Secret

        has = situation.has_key(provider, now)
        hint = "Enter keeps the one that is there" if has else "Enter goes back"
        typed = click.prompt(f"   key for {provider} ({hint})", default="", show_default=False, hide_input=True).strip()
        if not typed and not has:
            return False
        problem = self._adopt(provider, ref, Secret(typed) if typed else None)
        if problem:
            click.echo(f"   {problem}. Nothing was kept.")
        return not problem

    def _adopt(self, provider: str, ref: ModelRef | None, key: Secret | None) -> str:
        """Tries the model and keeps key and choice when it answers; says what is wrong otherwise."""
        import asyncio

        from openclaw.gateway.clock import SystemClock
        from openclaw.gateway.trial import try_model

        trial = self._situation(provider, key)
        facts = trial.registry.provider(provider)
        ref = ref or trial.resolve(f"{facts.id}/{facts.default_model}")
        if self._check:
            self.say(f"   asking {ref.key} …")
            if problem := asyncio.run(try_model(trial, ref, SystemClock())):
                return problem.rstrip(".")
        if key is not None:
            self._store().put(f"{facts.id}:default", facts.id, key)
        self.set("agents.defaults.model", ref.key)
        return ""

    def _store(self) -> Any:
        from openclaw.core.keys import DEFAULT_AGENT
        from openclaw.models.profilestore import ProfileStore

        return ProfileStore.of_agent(self._surroundings.home.state / "agents" / DEFAULT_AGENT / "agent")

    def _load(self) -> LoadedConfig:
        from openclaw.config.load import load

        return load(self._surroundings.home, self._surroundings.environ)

    def _situation(self, provider: str | None = None, key: Secret | None = None) -> ModelSet:
        """The models as they stand, or as they would with another key."""
        import msgspec

        from openclaw.models import catalog
        from openclaw.models.discover import probe_servers
        from openclaw.models.profiles import AuthProfile
        from openclaw.models.situation import build_model_set
        from openclaw.turns import agents

        loaded = self._load()
        agent = agents.view(loaded.config.agents, agents.default_agent(loaded.config.agents))
        stored = self._store().load()
        if provider is not None and key is not None:
            profile = f"{provider}:default"
            stored = msgspec.structs.replace(
                stored,
                profiles={**stored.profiles, profile: AuthProfile(provider=provider, secret=key)},
                order={**stored.order, provider: (profile,)},
            )
        local = not self._surroundings.environ.get("OPENCLAW_NO_LOCAL_MODELS")
        return build_model_set(
            loaded.config.models,
            catalog.load(),
            environ=loaded.variables,
            probe=probe_servers if local else lambda: (),
            auth=loaded.config.auth,
            stored=stored,
            primary=agent.primary,
            fallbacks=agent.fallbacks,
            aliases=agent.aliases,
        )

    # Name.

    def choose_name(self, name: str | None, *, ask: bool) -> None:
        from openclaw.gateway.surroundings import workspace_of
        from openclaw.store import atomic
        from openclaw.turns.agents import default_agent
        from openclaw.workspace import identity

        agents = self._load().config.agents
        path = workspace_of(agents, default_agent(agents), self._surroundings) / "IDENTITY.md"
        text = path.read_text(errors="replace") if path.is_file() else ""
        before = identity.parse(text).name
        if name is None and ask:
            default = before or "it picks one itself"
            typed = click.prompt("2. What shall the assistant be called?", default=default).strip()
            name = None if typed == default else typed
        if name and name != before:
            atomic.replace(path, named(text, " ".join(name.split())[:80]).encode(), mode=0o644)
        self.done["name"] = identity.parse(path.read_text(errors="replace")).name if path.is_file() else ""

    # Channels.

    def choose_channels(self, owners: tuple[str, ...], *, ask: bool) -> None:
        """Who the owner is on the channels of plugins; asked only when there is one."""
        from openclaw.cli import onboard_channels

        now = self._load().config.commands.owner_allow_from
        channels, notes = onboard_channels.available()
        given = onboard_channels.owners_in(" ".join(owners), channels)
        if not given and ask and channels:
            given = onboard_channels.ask_owner(channels, now, self.say)
        elif ask:
            for line in [f"   {note}" for note in notes] or [onboard_channels.NONE]:
                self.say(f"{line}\n")
        wanted = tuple(dict.fromkeys((*now, *given)))
        if wanted != now:
            self.set("commands.ownerAllowFrom", list(wanted))
        self.done |= {"channels": sorted(channels), "owners": list(wanted)}

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
        from openclaw.core.errors import InvalidRequest
        from openclaw.gateway.standing import services_of

        services = services_of(self._surroundings)
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


def _columns(names: list[str]) -> str:
    """Numbered names side by side, so that the question stays on a small screen."""
    cells = [f"{place:>2} {name}" for place, name in enumerate(names, 1)]
    rows = -(-len(cells) // 3)
    columns = [cells[start : start + rows] for start in range(0, len(cells), rows)]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in range(rows):
        shown = [column[row].ljust(width) for column, width in zip(columns, widths, strict=True) if row < len(column)]
        lines.append(f"   {'   '.join(shown)}".rstrip())
    return "\n".join(lines)


def named(text: str, name: str) -> str:
    """An IDENTITY.md with this name in it."""
    import re

    line = re.compile(r"^(\s*[-*]\s*(?:\*\*)?\s*name\s*:?\s*(?:\*\*)?\s*:?)[^\n]*$", re.IGNORECASE | re.MULTILINE)
    if line.search(text):
        return line.sub(lambda found: f"{found[1].rstrip()} {name}", text, count=1)
    return f"{text.rstrip()}\n\n- Name: {name}\n".lstrip()


def _now() -> int:
    import time

    return time.time_ns() // 1_000_000
