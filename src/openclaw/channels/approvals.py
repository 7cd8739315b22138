"""Asks the owner on a channel whether a call may run: buttons where there are any, else the command to answer with.

It also decides how long the run waits: a short while for who watches it, not at all where nobody does.

A question goes to the owner's direct chat and nowhere else; a group or a guest is told that the owner is asked. The
question is a message in the outbox: its buttons hold a nonce, and a press counts only when it repeats one of them.
"""

import logging
import re
import secrets
from collections.abc import Callable, Mapping

from openclaw.config.live import LiveConfig
from openclaw.core.channel import Address, AnswersPresses, Button, Inbound, Outbound, Platform
from openclaw.core.clock import Clock
from openclaw.core.errors import NotFound, OpenClawError
from openclaw.core.tool import ApprovalRequest
from openclaw.process.tasks import wait_first
from openclaw.protocol.events import EventBus
from openclaw.runs.approved import PREFIX, find_request
from openclaw.runs.inbox import Inbox
from openclaw.runs.outbox import Outbox, OutboxEntry
from openclaw.runs.request import RunRequest
from openclaw.security.pending import RESTARTED, PendingApproval, PendingApprovals, decisions
from openclaw.security.redaction import Redactor, secret_variables, secrets_in

log = logging.getLogger("openclaw.channels")

PRESS = "approve:"
LOOK_AGAIN = 5.0
"""Seconds after which a question that was answered on its way is looked at again."""
MOST_SOURCES = 5
LABELS = {"allow-once": "Allow once", "allow-always": "Always", "deny": "Deny"}
SAID = {"allow-once": "Allowed once", "allow-always": "Allowed from now on", "deny": "Denied"}
NOBODY = "nobody can be asked: no client is connected, and commands.ownerAllowFrom names nobody on a connected channel"
REFUSED = "nobody watches this run, and approvals.unattended is refuse"
WATCHED = 10.0
"""Seconds a run waits for somebody who is there; nobody is waited for who is not."""
ELSEWHERE = "That needs my owner's approval; the owner is asked."
NOT_OWNER = "Only my owner can answer this."
GONE = "No longer waiting."
ANSWER_WITH = "\n\nAnswer with one of these:\n"


class ChannelApprovals:
    """Puts the questions of runs to their owner, and takes the answers."""

    def __init__(
        self,
        questions: PendingApprovals,
        inbox: Inbox,
        outbox: Outbox,
        platforms: Mapping[tuple[str, str], Platform],
        bus: EventBus,
        live: LiveConfig,
        clock: Clock,
        has_client: Callable[[], bool],
    ) -> None:
        """`has_client` says whether a client is connected that can answer."""
        self._questions = questions
        self._inbox = inbox
        self._outbox = outbox
        self._platforms = platforms
        self._bus = bus
        self._live = live
        self._clock = clock
        self._has_client = has_client
        self._asked: set[str] = set()

    async def keep(self) -> None:
        """Asks what is to be asked, and says how it ended, until it is cancelled."""
        with self._bus.listening(only=["exec.approval.requested", "exec.approval.resolved"]) as changes:
            while True:
                waiting = self._questions.list()
                self._asked &= {question.request.id for question in waiting}
                for question in waiting:
                    if question.request.id not in self._asked:
                        self._asked.add(question.request.id)
                        await self._ask(question)
                if await self._close_answered():
                    await changes.some(most=100)
                else:
                    await wait_first(changes.some(most=100), self._clock.sleep(LOOK_AGAIN))

    async def _ask(self, question: PendingApproval) -> None:
        request = question.request
        run = await find_request(self._inbox, request.run_id)
        home = run.reply_to if run is not None else None
        owner = self._owner_chat(home)
        # What a run went on without stays open: somebody may come who can answer.
        if self._questions.is_waited_for(request.id) and (why := self._refusal(run, owner)):
            log.warning("approval %s is declined: %s", request.id, why)
            await self._questions.decline(request.id, why)
            return
        if owner is not None:
            await self._send(request, owner)
            if home is not None and home != owner:
                await self._outbox.put(Outbound(to=home, text=ELSEWHERE), f"approval-notice:{request.id}")
        # Who did not answer within that time in this run is not watching it any more.
        waits = _is_watched(run) and self._questions.waited(request.run_id) < WATCHED
        self._questions.wait_at_most(request.id, WATCHED if waits else 0.0)

    async def _send(self, request: ApprovalRequest, owner: Address) -> None:
        platform = self._platforms.get((owner.channel, owner.account))
        buttons = platform is not None and platform.facts.buttons
        text = self._describe(request)
        if not buttons:
            text += ANSWER_WITH + "\n".join(f"/approve {request.id} {decision}" for decision in decisions(request))
        asked = Outbound(to=owner, text=text, buttons=(_buttons(request),) if buttons else ())
        await self._outbox.put(asked, f"approval:{request.id}", key=request.session_key)

    def _refusal(self, run: RunRequest | None, owner: Address | None) -> str:
        """Why nobody is asked; empty when somebody is."""
        setting = self._live.config.approvals.unattended if run is not None and not _is_watched(run) else None
        if setting == "refuse":
            return REFUSED
        return NOBODY if setting is None and owner is None and not self._has_client() else ""

    async def nobody_here(self, question: PendingApproval, why: str) -> None:
        """The client that started the run has nobody to ask: the owner is asked elsewhere, or the answer is no."""
        request = question.request
        run = await find_request(self._inbox, request.run_id)
        reachable = self._owner_chat(run.reply_to if run is not None else None) is not None
        if reachable and request.call is not None and self._live.config.approvals.unattended != "refuse":
            self._questions.wait_at_most(request.id, 0.0)
        else:
            await self._questions.decline(request.id, why)

    async def asked_at(self, name: str) -> Address | None:
        """The chat in which a question was put to the owner."""
        try:
            return (await self._outbox.get(f"approval:{name}")).message.to
        except NotFound:
            return None

    def _owner_chat(self, home: Address | None) -> Address | None:
        """The owner's direct chat: where the run was asked for, if it is that, else one on a connected channel."""
        owners = [name.strip().partition(":")[::2] for name in self._live.config.commands.owner_allow_from]
        owners = [(channel, person) for channel, person in owners if channel and person not in ("", "*")]
        if home is not None and (home.channel, home.to) in owners:
            return home
        accounts = sorted(self._platforms, key=lambda name: (name[1] != "default", name))
        if home is not None:  # on the same channel, through the same account, if there is a choice
            accounts.sort(key=lambda name: (name[0] != home.channel, name[1] != home.account))
        for channel, account in accounts:
            for there, person in owners:
                if there == channel:
                    return Address(channel=channel, account=account, to=person)
        return None

    def _describe(self, request: ApprovalRequest) -> str:
        """What would happen, why it is asked, what was read before; without credentials."""
        redact = Redactor()
        redact.know((*secrets_in(self._live.config), *secret_variables(self._live.current.variables)))
        ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", request.command)), default=0))
        lines = [f"May I do this ({request.tool})?", "", ticks, request.command, ticks, f"in {request.cwd}"]
        lines += [f"Why you are asked: {request.why}"] if request.why else []
        lines += [f"Read before it: {each.source}" for each in request.origins[:MOST_SOURCES]]
        lines += [f"Session: {request.session_key}"]
        return redact("\n".join(lines))

    # The answers.

    async def press(self, event: Inbound) -> None:
        """Takes a press of a button below a question; whoever pressed is told what came of it."""
        await confirm_press(self._platforms, event, await self._answer(event))

    async def _answer(self, event: Inbound) -> str:
        if f"{event.channel}:{event.sender}" not in self._live.config.commands.owner_allow_from:
            return NOT_OWNER
        name, _, rest = event.button.removeprefix(PRESS).partition(":")
        try:
            entry = await self._outbox.get(f"approval:{name}")
        except NotFound:
            return GONE
        to, known = entry.message.to, {button.data for row in entry.message.buttons for button in row}
        if event.button not in known or (to.channel, to.account) != (event.channel, event.account):
            return GONE
        if (outcome := self._questions.outcome(name)) is not None:
            return f"Already answered: {SAID.get(outcome.decision, outcome.decision)}."
        decision = rest.partition(":")[2]
        try:
            await self._questions.resolve(name, decision, by=f"{event.channel}:{event.sender}")
        except NotFound:
            return GONE
        return f"{SAID[decision]}."

    async def _close_answered(self) -> bool:
        """Says below every question how it ended; false when one is still on its way."""
        waiting = {question.request.id for question in self._questions.list()}
        done = True
        for entry in await self._outbox.without_end("approval"):
            name = entry.id.partition(":")[2]
            if name in waiting:
                continue
            if entry.state in ("pending", "held") and not entry.receipts:
                await self._outbox.drop(entry.id)
            elif entry.state != "sent":
                done = False
            else:
                await self._outbox.put(self._ending(entry, name), f"approval-end:{name}")
        return done

    def _ending(self, entry: OutboxEntry, name: str) -> Outbound:
        to, outcome = entry.message.to, self._questions.outcome(name)
        if outcome is None or (outcome.decision == "expired" and outcome.by == RESTARTED):
            how = "No longer waiting: the gateway was restarted."
        elif outcome.decision == "expired":
            how = "Not answered in time: denied." if outcome.by == "nobody" else "No longer waiting: the run has ended."
        else:
            by = f" by {outcome.by}" if ":" in outcome.by else "" if outcome.by == "chat" else " in another client"
            how = f"{SAID[outcome.decision]}{by}."
        platform = self._platforms.get((to.channel, to.account))
        if platform is None or "edit" not in platform.facts.actions or not entry.receipts:
            return Outbound(to=to, text=f"Approval {name}: {how}")
        # The buttons are below the last piece of a long question; an edit without any takes them away.
        text = f"{(entry.pieces or (entry.message.text,))[-1].partition(ANSWER_WITH)[0].rstrip()}\n\n{how}"
        return Outbound(to=to, text=text, action="edit", about=entry.receipts[-1].id)


async def confirm_press(platforms: Mapping[tuple[str, str], Platform], event: Inbound, said: str) -> None:
    """Tells whoever pressed a button what came of it."""
    platform = platforms.get((event.channel, event.account))
    if platform is not None and isinstance(platform, AnswersPresses):
        try:
            await platform.answer_press(event, said)
        except OpenClawError as error:  # the answer counts, whether it was confirmed or not
            log.info("channel %s: a press could not be confirmed: %s", event.channel, error.message)


def _is_watched(run: RunRequest | None) -> bool:
    """Whether a person is there who may answer at once: who wrote, or who has just answered another question."""
    return run is None or run.trigger == "user" or run.run_id.startswith(PREFIX)


def _buttons(request: ApprovalRequest) -> tuple[Button, ...]:
    nonce = secrets.token_hex(4)
    return tuple(Button(LABELS[decision], f"{PRESS}{request.id}:{nonce}:{decision}") for decision in decisions(request))
