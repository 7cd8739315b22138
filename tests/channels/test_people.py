"""Several people on two accounts of one platform: what one says, is called or sends reaches nobody else."""

import asyncio
import json
from typing import Any

import pytest

from openclaw.testing import Says, TemporaryHome, calls
from openclaw.testing.server import MockModelServer, Reply
from tests.channels.telegram.server import TelegramServer
from tests.channels.telegram.test_gateway import configure
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio

OWNER, EVE, BOB, STRANGER = 7, 11, 12, 13
CLUB = {"id": -5, "type": "group", "title": "Club"}
CANARIES = {
    OWNER: ("safe-4711", "dentist-3301"),
    EVE: ("heron-7731", "Person 11", "eve-plan", "osprey-2209"),
    BOB: ("magpie-5518", "Person 12"),
}
"""What is private to each: what was said, a name, a file and what is in it, notes."""
SEARCHES = [
    calls("sessions_list"),
    calls("sessions_search", query="heron"),
    calls("sessions_history", sessionKey="agent:main:telegram:direct:11"),
    calls("memory_search", query="heron safe dentist"),
    calls("read", path="MEMORY.md"),
    calls("tool_call", name="sessions_search", arguments={"query": "heron"}),
]


class CuriousModel(MockModelServer):
    """Looks everywhere when it is told to dig, and repeats all that it was told."""

    def _next(self, request: dict[str, Any]) -> tuple[Reply, ...]:
        self.requests.append(request)
        last = request["messages"][-1]
        if last["role"] == "tool":
            results = [each for each in request["messages"] if each["role"] == "tool"]
            return (Says(f"I found: {json.dumps(results)[:1_500]}"),)
        said = json.dumps([each for each in request["messages"] if each["role"] == "user"])
        if "dig" in json.dumps(last):
            return tuple(SEARCHES)
        return (Says(f"You said: {said[-400:]}"),)


async def hears(telegram: TelegramServer, chat: int, what: str, count: int = 1) -> str:
    """The last message in a chat that says `what`, once there are so many."""

    def told() -> list[str]:
        return [each["text"] for each in telegram.sent if each["chat_id"] == chat and what in each["text"]]

    await asyncio.to_thread(telegram.until, lambda: len(told()) >= count, DEADLINE)
    return told()[-1]


async def let_in(gateway: GatewayProcess, telegram: TelegramServer, *people: int) -> None:
    for person in people:
        telegram.says("let me in", sender=person)
        await hears(telegram, person, "openclaw pairing approve telegram")
    async with gateway.client() as client:
        listed = await client.call("channels.pairing.list", {})
        for each in listed["requests"]:
            name = {"channel": "telegram", "accountId": each["accountId"], "requestId": each["requestId"]}
            await client.call("channels.pairing.approve", name)


def asked_by(model: MockModelServer, word: str) -> list[dict[str, Any]]:
    """The requests of the conversation in which a person has said `word`."""
    return [
        each
        for each in model.requests
        if any(word in json.dumps(said) for said in each["messages"] if said["role"] == "user")
    ]


async def test_nothing_of_one_reaches_another(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.workspace / "MEMORY.md").write_text("The number of the safe is safe-4711.\n")
    with (
        CuriousModel([Says("?")]) as model,
        TelegramServer() as telegram,
        TelegramServer("43:other") as other,
    ):
        second = {"botToken": "43:other", "apiRoot": other.url}
        configure(openclaw_home, model, telegram, accounts={"work": second}, groups={"-5": {}}, groupPolicy="open")
        telegram.files["plan"] = b"osprey-2209"
        with GatewayProcess(openclaw_home) as gateway:
            await let_in(gateway, telegram, EVE, BOB)
            telegram.says("dentist-3301 is mine", sender=OWNER)
            await hears(telegram, OWNER, "You said")
            telegram.says("heron-7731 is mine", sender=EVE)
            await hears(telegram, EVE, "You said")
            document = {"file_id": "plan", "file_name": "eve-plan.txt", "mime_type": "text/plain"}
            telegram.says(None, document=document, caption="keep it", sender=EVE)
            await hears(telegram, EVE, "You said", 2)
            telegram.says("magpie-5518 is mine", sender=BOB)
            await hears(telegram, BOB, "You said")
            telegram.says("dig for what the others said", sender=BOB)
            await hears(telegram, BOB, "I found")
            # The same person on the other account is another conversation, which knows nothing of the first.
            other.says("what did I say on the first?", sender=EVE)
            await hears(other, EVE, "You said")

            # Who is nobody is heard by nobody: a stranger, and a group that does not mention us.
            before = len(model.requests)
            telegram.says("finch-9090", sender=STRANGER)
            await hears(telegram, STRANGER, "pairing approve")
            telegram.says("wren-8080", sender=EVE, chat=CLUB)
            telegram.says("and now?", sender=BOB)
            await hears(telegram, BOB, "You said", 2)
            assert len(model.requests) == before + 1
            assert not [each for each in telegram.sent if each["chat_id"] == CLUB["id"]]

        said = {person: [each["text"] for each in telegram.sent if each["chat_id"] == person] for person in CANARIES}
        requests = {
            OWNER: asked_by(model, "dentist-3301"),
            EVE: asked_by(model, "heron-7731"),
            BOB: asked_by(model, "magpie-5518"),
        }
        assert [len(each) for each in requests.values()] == [1, 2, 4]
        for person, found in requests.items():
            seen = json.dumps(found) + json.dumps(said[person])
            for whose, canaries in CANARIES.items():
                for canary in canaries:
                    assert whose == person or canary not in seen, f"{canary} of {whose} was seen by {person}"
        assert "safe-4711" in json.dumps(requests[OWNER]), "the owner's own notes are the owner's"
        everything = json.dumps(model.requests)
        assert "finch-9090" not in everything and "wren-8080" not in everything
        (elsewhere,) = asked_by(model, "on the first?")
        assert not any(canary in json.dumps(elsewhere) for canary in ("heron-7731", "magpie-5518", "safe-4711"))
        assert len(other.sent) == 1
