"""The HTTP surface over the assistant of this process."""

from openclaw.core.keys import SessionKey, parse
from openclaw.gateway.app import App
from openclaw.gateway.http.asking import Conversations
from openclaw.gateway.http.embeddings import Embed
from openclaw.gateway.http.listening import RunFanout
from openclaw.gateway.http.surface import HttpParts
from openclaw.turns.agents import agent_ids
from openclaw.turns.ledger import Inbox
from openclaw.turns.runs import RunService


def parts_of(app: App, runs: RunService, ledger: Inbox, fanout: RunFanout, embed: Embed | None = None) -> HttpParts:
    """What the surface needs of `app`. `fanout` must hear what `runs` tells."""

    async def has_history(key: SessionKey) -> bool:
        row = await app.index.get(key)
        return row is not None and (row.messages > 0 or row.status == "running")

    async def session_of(run_id: str) -> SessionKey | None:
        entry = await ledger.get(run_id)
        return parse(entry.session_key) if entry else None

    return HttpParts(
        runs=runs,
        fanout=fanout,
        known=Conversations(
            key_of=app.key,
            has_history=has_history,
            tool_names=lambda: frozenset(tool.spec.name for tool in app.tools.of()),
        ),
        session_of=session_of,
        agents=lambda: agent_ids(app.config.agents),
        toolbox=lambda key, without: app.toolbox(key, without=without),
        index=app.index,
        embed=embed,
        clock=app.clock,
    )
