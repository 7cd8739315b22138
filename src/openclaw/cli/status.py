"""`openclaw status`: what is set up here."""

import click


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(as_json: bool) -> None:
    """What is set up here, in a few lines."""
    import asyncio
    from functools import cache

    from openclaw.cli.models import situation as assess
    from openclaw.cli.output import ago, note, print_json
    from openclaw.config.load import load
    from openclaw.gateway.clock import SystemClock
    from openclaw.gateway.lock import running
    from openclaw.gateway.surroundings import Environment, state, workspace_of
    from openclaw.models.discover import probe_servers
    from openclaw.turns.agents import agent_ids, default_agent
    from openclaw.version import __version__

    async def main() -> None:
        clock = SystemClock()
        surroundings = Environment.of_process()
        home = surroundings.home
        loaded = load(home, surroundings.environ)
        config = loaded.config
        problems = [str(problem) for problem in (*loaded.issues, *loaded.warnings)]
        agent = default_agent(config.agents)
        asked = not surroundings.environ.get("OPENCLAW_NO_LOCAL_MODELS")
        situation = assess(config, loaded.variables, home, cache(probe_servers) if asked else lambda: ())
        async with state(home, clock) as (_, index):
            sessions = await index.list()
        execution = config.tools.exec
        document = {
            "version": __version__,
            "stateDir": str(home.state),
            "configPath": str(home.config),
            "configExists": loaded.exists,
            "usedLastGood": loaded.used_last_good,
            "problems": problems,
            "agents": list(agent_ids(config.agents)),
            "defaultAgent": agent,
            "workspace": str(workspace_of(config.agents, agent, surroundings)),
            "model": str(situation.default),
            "modelWhy": situation.pick.why,
            "fallbacks": [str(ref) for ref in situation.fallbacks],
            "exec": {"security": execution.security, "ask": execution.ask},
            "sessions": len(sessions),
            "lastSession": sessions[0].session_key if sessions else None,
        }
        if as_json:
            print_json(document)
            return
        for problem in problems:
            note(problem)
        gateway = running(home.state)
        last = f", last {sessions[0].session_key} {ago(sessions[0].updated_at, clock.now())} ago" if sessions else ""
        there = "" if loaded.exists else " (not there yet: defaults)"
        lines = (
            ("OpenClaw", __version__),
            ("model", f"{document['model']} ({document['modelWhy']})"),
            ("agent", f"{agent}, workspace {document['workspace']}"),
            ("sessions", f"{len(sessions)}{last}"),
            ("gateway", f"running on port {gateway.port} (pid {gateway.pid})" if gateway else "not running"),
            ("commands", f"security {execution.security}, ask {execution.ask}"),
            ("config", f"{home.config}{there}"),
        )
        for name, value in lines:
            click.echo(f"{name:<9} {value}")

    asyncio.run(main())
