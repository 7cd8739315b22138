"""What the command line of a chat said, and the gateway it means."""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from openclaw.core.secret import Secret

if TYPE_CHECKING:
    from openclaw.gateway.reach import ClientTarget
    from openclaw.gateway.surroundings import Environment


class Chosen(Struct, frozen=True, kw_only=True):
    """The choices of a person."""

    session_key: str | None = None
    agent_id: str | None = None
    model: str | None = None
    thinking: str | None = None
    url: str | None = None
    token: Secret | None = None
    password: Secret | None = None
    fingerprint: str = ""

    def target(self, surroundings: "Environment") -> "ClientTarget":
        from openclaw.gateway.reach import find

        return find(
            surroundings,
            url=self.url,
            token=self.token.reveal() if self.token else None,
            password=self.password.reveal() if self.password else None,
            fingerprint=self.fingerprint,
        )

    def params(self) -> dict[str, Any]:
        given = {
            "sessionKey": self.session_key,
            "agentId": self.agent_id,
            "model": self.model,
            "thinking": self.thinking,
        }
        return {name: value for name, value in given.items() if value is not None}
