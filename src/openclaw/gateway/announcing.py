"""Where the result of a job goes: into the main conversation, or to an address."""

from typing import Any
from urllib.parse import urlsplit

from openclaw.core.errors import Conflict, InvalidRequest, OpenClawError, StateError, Unavailable
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Assistant, Text
from openclaw.core.origin import Origin
from openclaw.cron.book import run_shown
from openclaw.cron.jobs import Delivery
from openclaw.cron.store import JobFire
from openclaw.gateway.desk import SessionService
from openclaw.tools.guard import AddressRules

WEBHOOK_SECONDS = 15.0
HERE = (None, "last", "webchat", "main")


class JobDelivery:
    """Hands results over; what cannot be handed over is an error with a reason."""

    def __init__(self, desk: SessionService, resolve: Any = None) -> None:
        self._desk = desk
        self._resolve = resolve
        """Looks names up in place of the system."""

    async def deliver(self, fire: JobFire, delivery: Delivery, text: str) -> None:
        if delivery.mode == "announce":
            if delivery.channel not in HERE:
                raise InvalidRequest(f"the channel {delivery.channel} is not connected: leave delivery.channel out")
            to, what = "main", f"[{fire.job.name}] {text}"
        elif delivery.mode == "webhook":
            to, what = delivery.to or "", text
        else:
            return
        what = await self._allowed(to, what)
        if delivery.mode == "announce":
            key = SessionKey(self._desk.key("main", fire.job.agent_id).agent, f"cron:{fire.job.id}:run:{fire.run_id}")
            heard = await self._desk.origins(key)
            await self.say(fire.job.agent_id, what, f"cron:{fire.run_id}", heard)
        else:
            await self._post(to, {**run_shown(fire), "summary": what})
        if (plugged := self._desk.app.plugged) is not None:
            plugged.messages.tell_sent(to, what, plugged.errand("cron"))

    async def _allowed(self, to: str, text: str) -> str:
        """The words that plugins agree to; one that cancels them is an error with its reason."""
        plugged = self._desk.app.plugged
        if plugged is None:
            return text
        merged = await plugged.messages.decided(to, text, plugged.errand("cron"))
        if merged.cancelled is not None:
            raise Conflict(f"not delivered: the plugin {merged.cancelled.plugin} cancelled it: {merged.cancelled.text}")
        return merged.content

    async def say(self, agent_id: str | None, text: str, writer: str, origins: tuple[Origin, ...] = ()) -> None:
        """A message of the assistant in the agent's main conversation, with the labels of what it was made from."""
        key = self._desk.key("main", agent_id)
        message = Assistant(
            content=(Text(text),), provider="openclaw", model="cron", timestamp=self._desk.now, origins=origins
        )
        await self._desk.app.turns.inject(key, message, writer)
        await self._desk.changed(key, "inject")

    async def _post(self, url: str, document: dict[str, Any]) -> None:
        """Results leave for the open network only, unless the owner says otherwise."""
        import httpx2  # slow to import, and few installations send anything there

        settings = self._desk.app.config.cron
        token = settings.webhook_token
        headers = {"authorization": f"Bearer {token.reveal()}"} if token else {}
        from openclaw.tools.fetch_transport import GuardedTransport, system_resolve

        fence = AddressRules(allow_private=settings.webhook_allow_private)
        transport = GuardedTransport(fence, self._resolve or system_resolve)
        try:
            async with httpx2.AsyncClient(
                timeout=WEBHOOK_SECONDS, follow_redirects=False, transport=transport
            ) as client:
                response = await client.post(url, json=document, headers=headers)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unavailable(f"the webhook did not answer ({type(error).__name__})") from error
        except OpenClawError as error:
            host = urlsplit(url).hostname or ""
            hint = "set cron.webhookAllowPrivate to send results there"
            raise InvalidRequest(f"{host} is inside your network ({error.message}): {hint}") from error
        if response.status_code >= 300:
            raise StateError(f"the webhook answered {response.status_code}")
