"""What happens when somebody types only `openclaw`: everything is made ready, then the chat opens."""

from openclaw.cli.output import note
from openclaw.cli.starting import gateway_up, web_address
from openclaw.config.load import load
from openclaw.core.errors import OpenClawError
from openclaw.gateway.app import Surroundings, workspace_of
from openclaw.gateway.clock import SystemClock
from openclaw.turns.agents import agent_ids
from openclaw.workspace.seed import Seeded, ensure


def make_home(surroundings: Surroundings) -> list[Seeded]:
    """The home and the workspaces with their starter files; nothing that is there is touched."""
    surroundings.home.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    agents = load(surroundings.home, surroundings.environ).config.agents
    now = SystemClock().now()
    return [ensure(workspace_of(agents, agent, surroundings), now) for agent in agent_ids(agents)]


def begin() -> None:
    """Makes the home, starts the gateway when none runs, and says in one line where it is."""
    surroundings = Surroundings.of_process()
    make_home(surroundings)
    try:
        found = gateway_up(surroundings)
    except OpenClawError as error:
        # A chat in this process is better than none.
        note(f"the gateway is not running: {error.message}")
        return
    note(f"The gateway is on {web_address(found)}; openclaw dashboard opens the web page.")
