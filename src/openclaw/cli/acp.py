"""`openclaw acp`: the assistant for editors."""

import click


@click.command("acp")
@click.option("--agent", "agent_id", metavar="ID", help="The agent that answers (default: the default one).")
@click.option("--local", is_flag=True, help="Without the gateway, even when one runs.")
def command(agent_id: str | None, local: bool) -> None:
    """Serve the assistant to an editor (Agent Client Protocol), over standard input and output."""
    import asyncio

    from openclaw.gateway.acp_serve import serve
    from openclaw.gateway.surroundings import Environment

    asyncio.run(serve(Environment.of_process(), agent_id, local=local))
