"""Presses of the buttons below a question of the assistant (`ask_user`): each stands for an option.

Nothing is stored: the question is in the transcript, and it waits until a person has said something after it.
"""

from collections.abc import Mapping

from openclaw.core.channel import Inbound, Outbound, Platform
from openclaw.core.keys import SessionKey
from openclaw.runs.approved import find_request
from openclaw.runs.inbox import Inbox
from openclaw.runs.outbox import Outbox
from openclaw.sessions.service import SessionService
from openclaw.sessions.transcript import MessageEntry, path_to_leaf
from openclaw.tools.ask import QuestionChoice, find_choice, without_list

NOT_HEARD = "You cannot answer this here."


class ChannelQuestions:
    """Finds what a press stands for, and shows below the question what was chosen."""

    def __init__(
        self,
        sessions: SessionService,
        inbox: Inbox,
        outbox: Outbox,
        platforms: Mapping[tuple[str, str], Platform],
    ) -> None:
        self._sessions = sessions
        self._inbox = inbox
        self._outbox = outbox
        self._platforms = platforms

    async def choice(self, key: SessionKey, event: Inbound) -> QuestionChoice | None:
        """The option that was pressed; None when the question waits no longer in this conversation."""
        _, loaded = await self._sessions.load(key)
        if loaded is None:
            return None
        said = [entry.message for entry in path_to_leaf(loaded.entries) if isinstance(entry, MessageEntry)]
        found = find_choice(said, event.button)
        if found is None:
            return None
        for name in found.since:
            run = await find_request(self._inbox, name.removesuffix(":user"))
            if run is None or run.trigger == "user":  # what the gateway said to the assistant answers nothing
                return None
        return found

    async def close(self, event: Inbound, chosen: QuestionChoice) -> None:
        """Takes the buttons away, and says what was chosen."""
        platform = self._platforms.get((event.channel, event.account))
        if platform is None or "edit" not in platform.facts.actions or event.about is None:
            return
        text = f"{without_list(chosen.asked.text, chosen.asked.options)}\n\n→ {chosen.option}"
        ended = Outbound(to=event.origin, text=text, action="edit", about=event.about)
        await self._outbox.put(ended, f"question-end:{chosen.asked.id}")
