"""`openclaw exec-policy`: what may run, and who is asked."""

import click

PRESETS = {
    "yolo": ("full", "off", "everything runs, nobody is asked"),
    "cautious": ("allowlist", "on-miss", "what is not on the list is asked about"),
    "deny-all": ("deny", "off", "nothing runs"),
}


@click.group("exec-policy")
def command() -> None:
    """What may run, and who is asked."""


@command.command("show")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show(as_json: bool) -> None:
    """What holds for each agent, the approvals file included."""
    from openclaw.approvals.grants import ApprovalFile
    from openclaw.cli.output import print_json, table
    from openclaw.config.load import load
    from openclaw.core.keys import normalise_agent
    from openclaw.gateway.surroundings import Environment
    from openclaw.gateway.tools.building import USUAL, exec_policy
    from openclaw.policy.execution import stricter
    from openclaw.turns.agents import agent_ids

    surroundings = Environment.of_process()
    config = load(surroundings.home, surroundings.environ).config
    file = ApprovalFile(surroundings.home.state / "exec-approvals.json").read()
    own = {normalise_agent(entry.id): entry.tools.exec for entry in config.agents.list}
    rows = []
    for agent in agent_ids(config.agents):
        wanted = exec_policy(config.tools.exec, own.get(agent, USUAL.exec))
        held = wanted
        for layer in (file.defaults, file.agents.get(agent)):
            if layer is not None:
                held = stricter(held, (layer.security or "full", layer.ask or "off"))
        rows.append({"agent": agent, "security": held[0], "ask": held[1], "configured": list(wanted)})
    if as_json:
        print_json(rows)
        return
    cells = [(str(row["agent"]), str(row["security"]), str(row["ask"])) for row in rows]
    click.echo(table(cells, ("agent", "security", "ask")))


@command.command("set")
@click.option("--security", type=click.Choice(["deny", "allowlist", "full"]), help="What runs at all.")
@click.option("--ask", type=click.Choice(["off", "on-miss", "always"]), help="When a person is asked.")
def set_policy(security: str | None, ask: str | None) -> None:
    """Set what runs and who is asked, for all agents that have nothing of their own."""
    if security is None and ask is None:
        raise click.UsageError("give --security, --ask or both")
    _write({name: value for name, value in (("security", security), ("ask", ask)) if value})


@command.command("preset")
@click.argument("name", type=click.Choice(list(PRESETS)))
def preset(name: str) -> None:
    """Set both in one word: yolo, cautious or deny-all."""
    security, ask, meaning = PRESETS[name]
    _write({"security": security, "ask": ask})
    click.echo(f"{name}: {meaning}")


def _write(values: dict[str, str]) -> None:
    from openclaw.config.edit import Editor
    from openclaw.gateway.surroundings import Environment

    surroundings = Environment.of_process()
    Editor(surroundings.home, surroundings.environ).patch({"tools": {"exec": values}})
    click.echo(", ".join(f"tools.exec.{name} is {value}" for name, value in values.items()))
