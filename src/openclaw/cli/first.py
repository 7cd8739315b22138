"""What happens when somebody types only `openclaw`: everything is made ready."""

from openclaw.cli.starting import gateway_up, web_address
from openclaw.config.load import load
from openclaw.gateway.clock import SystemClock
from openclaw.gateway.lock import running
from openclaw.gateway.surroundings import Environment, workspace_of
from openclaw.turns.agents import agent_ids
from openclaw.workspace.seed import Seeded, ensure


def make_home(surroundings: Environment) -> list[Seeded]:
    """The home and the workspaces with their starter files; nothing that is there is touched."""
    surroundings.home.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    agents = load(surroundings.home, surroundings.environ).config.agents
    now = SystemClock().now()
    return [ensure(workspace_of(agents, agent, surroundings), now) for agent in agent_ids(agents)]


def begin() -> str:
    """Makes the home and starts the gateway when none runs; gives one line that says where it is."""
    surroundings = Environment.of_process()
    make_home(surroundings)
    was_there = running(surroundings.home.state) is not None
    address = web_address(gateway_up(surroundings))
    stays = "" if was_there else " and stays in the background (openclaw gateway stop ends it)"
    return f"The gateway is on {address}{stays}; openclaw dashboard opens the web page."
