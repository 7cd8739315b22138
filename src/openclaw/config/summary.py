"""What is set up in a home, in a few facts: the document of `openclaw status`, made by a gateway or without one."""

from collections.abc import Sequence
from typing import Any

from openclaw.agent.settings import agent_ids, default_agent
from openclaw.config.load import LoadedConfig
from openclaw.models.model_set import ModelSet
from openclaw.process.environment import Environment
from openclaw.sessions.index import SessionRow
from openclaw.version import __version__
from openclaw.workspace.seed import workspace_of


def describe_home(
    environment: Environment, loaded: LoadedConfig, models: ModelSet, rows: Sequence[SessionRow]
) -> dict[str, Any]:
    """What `openclaw status` shows; `rows` are the sessions, the latest first."""
    home, config = environment.home, loaded.config
    agent, policy = default_agent(config.agents), config.tools.exec
    return {
        "version": __version__,
        "stateDir": str(home.state),
        "configPath": str(home.config),
        "configExists": loaded.exists,
        "usedLastGood": loaded.used_last_good,
        "problems": [str(problem) for problem in (*loaded.issues, *loaded.warnings)],
        "agents": list(agent_ids(config.agents)),
        "defaultAgent": agent,
        "workspace": str(workspace_of(config.agents, agent, environment)),
        "model": str(models.default),
        "modelWhy": models.pick.why,
        "fallbacks": [str(ref) for ref in models.fallbacks],
        "exec": {"security": policy.security, "ask": policy.ask},
        "sessions": len(rows),
        "lastSession": rows[0].session_key if rows else None,
        "lastUsedAt": rows[0].updated_at if rows else None,
    }
