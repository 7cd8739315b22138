"""The services that the parts of automation work with."""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from openclaw.agent.settings import AgentsSettings
from openclaw.automation.settings import CronSettings
from openclaw.budget.service import BudgetService
from openclaw.channels.settings import ChannelSettings
from openclaw.core.channel import Address, Platform
from openclaw.core.clock import Clock, millis, tell_time
from openclaw.core.errors import Unavailable
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Text
from openclaw.core.settings import Live
from openclaw.core.text import Origin
from openclaw.process.environment import Home, local_timezone
from openclaw.protocol.events import EventBus
from openclaw.runs.hooks.runs import RunHooks
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.outbox import Outbox
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import RunRequest
from openclaw.runs.toolset import MachineTools
from openclaw.runs.turn import TurnRunner
from openclaw.runs.worker import RunService
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.settings import CommandsSettings
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.maintenance import SessionMaintenance
from openclaw.sessions.service import SessionService
from openclaw.sessions.system_events import SystemEvents
from openclaw.storage.database import Database
from openclaw.workspace.seed import Workspaces

FILE_BYTES = 262_144
WAIT_SECONDS = 60.0


def always(agent: str) -> bool:
    """For a gateway that is alone: every agent is its own."""
    return True


class AutomationContext(Struct, frozen=True, kw_only=True):
    sessions: SessionService
    lifecycle: SessionLifecycle
    maintenance: SessionMaintenance
    runs: RunService
    index: SessionIndex
    system_events: SystemEvents
    home: Home
    workspaces: Workspaces
    db: Database
    clock: Clock
    turns: TurnRunner
    run_hooks: RunHooks
    sandboxes: SandboxService
    budget: BudgetService
    machine_tools: MachineTools
    bus: EventBus
    agents_settings: Live[AgentsSettings]
    cron_settings: Live[CronSettings]
    commands_settings: Live[CommandsSettings]
    channels: Live[Mapping[str, ChannelSettings]]
    outbox: Outbox
    platforms: Mapping[tuple[str, str], Platform]
    """The accounts on channels that some gateway speaks for."""
    environ: Mapping[str, str]
    holds: Callable[[str], bool] = always
    """Whether this gateway does for an agent what starts by itself."""

    @property
    def now(self) -> int:
        """Milliseconds since the epoch."""
        return millis(self.clock)

    async def address_of(
        self,
        key: SessionKey,
        channel: str | None,
        to: str | None = None,
        account: str | None = None,
        thread: str | int | None = None,
    ) -> Address | None:
        """Where something said in a conversation goes besides; None when it stays there."""
        owners = self.commands_settings.current.owner_allow_from
        thread = None if thread is None else str(thread)
        address = await self.outbox.routes.resolve(key, channel, to, account, thread, owners)
        named = channel not in (None, "", "last", "owner") or to is not None
        # The route of a conversation waits for its account to come back; a name may be a mistake.
        if address is not None and named and (address.channel, address.account) not in self.platforms:
            raise Unavailable(f"{address.channel} ({address.account}) is not connected: see openclaw channels status")
        return address

    async def is_direct(self, address: Address) -> bool:
        """Whether an address is a chat with one person: no group that is configured or was heard from."""
        section = self.channels.current.get(address.channel)
        if section is not None and address.to in section.of(address.account).groups:
            return False
        return not await self.outbox.routes.is_group(address)

    async def say(self, key: SessionKey, text: str, writer: str, origins: tuple[Origin, ...] = ()) -> None:
        """Says something in a conversation as the assistant, with the labels of what it was made from."""
        message = Assistant(
            content=(Text(text),), provider="openclaw", model="cron", timestamp=self.now, origins=origins
        )
        await self.sessions.injected(key, await self.turns.inject(key, message, writer))

    @property
    def zone(self) -> str:
        """The user's time zone."""
        return self.agents_settings.current.defaults.user_timezone or local_timezone(self.environ) or "UTC"

    def time_told(self) -> str:
        """The time as a run without a person is told it: where the user is, in their format."""
        return tell_time(self.clock.now(), self.zone, self.agents_settings.current.defaults.time_format)


async def run_to_end(runs: RunService, turn: RunRequest) -> RunOutcome:
    """Runs `turn` after whatever its session is busy with."""
    await runs.submit(turn, rules=QueueRules(mode="followup"))
    while (outcome := await runs.wait(turn.run_id, WAIT_SECONDS)) is None:
        pass
    return outcome


def read_task_file(path: Path) -> str | None:
    """The text of a file of tasks such as HEARTBEAT.md; None when there is none."""
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES).decode(errors="replace")
    except OSError:
        return None
