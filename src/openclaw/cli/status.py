"""`openclaw status`: what is set up here."""

import click


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(as_json: bool) -> None:
    """What is set up here, in a few lines."""
    import asyncio

    from openclaw.cli.output import ago, note, print_json
    from openclaw.cli.running import TerminalApprover
    from openclaw.gateway.app import Surroundings, assistant
    from openclaw.gateway.clock import SystemClock
    from openclaw.gateway.lock import running
    from openclaw.turns.agents import agent_ids, default_agent
    from openclaw.version import __version__

    async def main() -> None:
        clock = SystemClock()
        problems: list[str] = []
        async with assistant(
            Surroundings.of_process(), clock=clock, approver=TerminalApprover(), warn=problems.append
        ) as app:
            agent = default_agent(app.config.agents)
            situation = app.situation(agent)
            sessions = await app.index.list()
            execution = app.config.tools.exec
            document = {
                "version": __version__,
                "stateDir": str(app.home.state),
                "configPath": str(app.home.config),
                "configExists": app.loaded.exists,
                "usedLastGood": app.loaded.used_last_good,
                "problems": problems,
                "agents": list(agent_ids(app.config.agents)),
                "defaultAgent": agent,
                "workspace": str(app.workspace(agent)),
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
        gateway = running(Surroundings.of_process().home.state)
        last = f", last {sessions[0].session_key} {ago(sessions[0].updated_at, clock.now())} ago" if sessions else ""
        config = "" if app.loaded.exists else " (not there yet: defaults)"
        lines = (
            ("OpenClaw", __version__),
            ("model", f"{document['model']} ({document['modelWhy']})"),
            ("agent", f"{agent}, workspace {document['workspace']}"),
            ("sessions", f"{len(sessions)}{last}"),
            ("gateway", f"running on port {gateway.port} (pid {gateway.pid})" if gateway else "not running"),
            ("commands", f"security {execution.security}, ask {execution.ask}"),
            ("config", f"{app.home.config}{config}"),
        )
        for name, value in lines:
            click.echo(f"{name:<9} {value}")

    asyncio.run(main())
