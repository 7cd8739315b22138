"""`openclaw setup`: the home and the workspace, without questions."""

import click


@click.command("setup")
@click.option("--workspace", metavar="DIR", help="Keep the default agent's files in DIR (remembered in the config).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(workspace: str | None, as_json: bool) -> None:
    """Make the home and the workspace with its starter files. Safe to run again: nothing is overwritten."""
    from pathlib import Path

    import msgspec

    from openclaw.cli.output import note, print_json
    from openclaw.config.edit import Editor
    from openclaw.config.load import load
    from openclaw.gateway.clock import SystemClock
    from openclaw.gateway.surroundings import Environment, workspace_of
    from openclaw.turns.agents import agent_ids
    from openclaw.workspace.seed import ensure

    surroundings = Environment.of_process()
    home = surroundings.home
    home.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    if workspace is not None:
        directory = str((surroundings.cwd / Path(workspace).expanduser()).resolve())
        Editor(home, surroundings.environ).set("agents.defaults.workspace", directory)
    config = load(home, surroundings.environ).config
    made = [
        ensure(workspace_of(config.agents, agent, surroundings), SystemClock().now())
        for agent in agent_ids(config.agents)
    ]
    if as_json:
        print_json({"stateDir": str(home.state), "workspaces": msgspec.to_builtins(made)})
        return
    click.echo(f"home       {home.state}")
    for seeded in made:
        what = f"made {', '.join(seeded.created)}" if seeded.created else "nothing was missing"
        click.echo(f"workspace  {seeded.workspace}: {what}")
        for line in seeded.notes:
            note(line)
    click.echo('Say hello: openclaw agent --message "hello"')
