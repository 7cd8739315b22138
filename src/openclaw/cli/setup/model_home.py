"""This home as this process sees it, without a gateway: its models, and what is set up."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from openclaw.agent import settings
from openclaw.cli.render import ProgressLine
from openclaw.config.load import load
from openclaw.config.schema import Config
from openclaw.config.settings import StateStoreSettings
from openclaw.config.summary import describe_home
from openclaw.core.keys import DEFAULT_AGENT
from openclaw.gateway.state import open_state
from openclaw.models import profiles, registry
from openclaw.models.discover import Probe, probe_servers
from openclaw.models.model_set import ModelSet, build_model_set
from openclaw.models.profiles import Profiles, ProfileStore
from openclaw.process.environment import Environment, Home
from openclaw.process.tasks import SystemClock
from openclaw.sessions.index import SessionRow


def load_model_set(
    config: Config, environ: Mapping[str, str], home: Home, probe: Probe, stored: Profiles | None = None
) -> ModelSet:
    """The models as the default agent sees them, with its keys or those in `stored`."""
    agent = settings.resolve_agent(config.agents, settings.default_agent(config.agents))
    if stored is None:
        folders = dict.fromkeys(home.state / "agents" / name / "agent" for name in (DEFAULT_AGENT, agent.id))
        shared, *own = (ProfileStore.of_agent(folder).load() for folder in folders)
        stored = profiles.merge(shared, own[0]) if own else shared
    return build_model_set(
        config.models,
        registry.load(),
        environ=environ,
        probe=probe,
        auth=config.auth,
        stored=stored,
        primary=agent.primary,
        fallbacks=agent.fallbacks,
        aliases=agent.aliases,
    )


def local_servers(environ: Mapping[str, str]) -> Probe:
    """Asks the model servers of this machine, once and only when needed; none where that is switched off."""
    return tuple if environ.get("OPENCLAW_NO_LOCAL_MODELS") else cache(probe_servers)


def describe_here(environment: Environment) -> dict[str, Any]:
    """What `openclaw status` shows."""
    home, loaded = environment.home, load(environment.home, environment.environ)
    models = load_model_set(loaded.config, loaded.variables, home, local_servers(environment.environ))
    return describe_home(environment, loaded, models, asyncio.run(_sessions(home, loaded.config.store)))


async def _sessions(home: Home, store: StateStoreSettings) -> Sequence[SessionRow]:
    async with open_state(home, SystemClock(), store, ProgressLine()) as (_, index):
        return await index.list()
