"""People on a plugin's channel, through a real gateway: strangers, guests, groups and the owner."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.testing import Calls, Says, TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.e2e.gateway_process import GatewayProcess, collect
from tests.e2e.test_command_line import run
from tests.plugins.support import DEADLINE, write

pytestmark = pytest.mark.anyio

MAILBOX = Path(__file__).parents[2] / "examples" / "mailbox"


class Post:
    """The letters of a mailbox."""

    def __init__(self, home: TemporaryHome, server: MockModelServer, channel: dict[str, Any], *owners: str) -> None:
        self.home = home
        self.root = home.root / "post"
        (self.root / "inbox").mkdir(parents=True)
        self._written = 0
        box = {"config": {"directory": str(self.root), "seconds": 0.05}}
        self.settings = {
            **server.settings(),
            "plugins": {"load": {"paths": [str(MAILBOX)]}, "entries": {"mailbox": box}},
            "commands": {"ownerAllowFrom": list(owners)},
            "channels": {"mailbox": channel},
        }
        home.configure(self.settings)

    def writes(self, sender: str, text: str) -> None:
        self._written += 1
        waiting = self.root / f"{self._written}.part"
        waiting.write_text(text)
        waiting.rename(self.root / "inbox" / f"{sender}--{self._written}.txt")

    async def hears(self, name: str) -> str:
        """The next letter to `name`, taken out of the box."""
        async with asyncio.timeout(DEADLINE):
            while not (found := sorted((self.root / "outbox").glob(f"{name}--*.txt"))):
                await asyncio.sleep(0.02)
        text = found[0].read_text().strip()
        found[0].unlink()
        return text

    async def read(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE):
            while len(list((self.root / "read").glob("*"))) < count:
                await asyncio.sleep(0.02)


async def test_a_stranger_gets_a_code_and_is_heard_once_the_owner_agrees(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.workspace / "MEMORY.md").write_text("The safe's number is 4711.\n")
    (openclaw_home.workspace / "notes.txt").write_text("private\n")
    script: list[Says | Calls] = [
        calls("exec", command="install /dev/null here"),
        says("Good day, Eve."),
        says("Good day, Ada."),
    ]
    with MockModelServer(script) as server:
        post = Post(openclaw_home, server, {}, "mailbox:ada")
        with GatewayProcess(openclaw_home) as gateway:
            post.writes("eve", "let me in")
            invitation = await post.hears("eve")
            command = invitation.splitlines()[-1].split()
            assert command[:4] == ["openclaw", "pairing", "approve", "mailbox"] and len(command[4]) == 8
            post.writes("eve", "please")  # asked already: nothing more is said
            assert command[4] in run(openclaw_home, "pairing", "list").stdout
            await post.read(2)
            assert server.requests == []

            done = run(openclaw_home, *command[1:])
            assert done.stdout == "eve is heard on mailbox from now on.\n", done.stderr
            assert run(openclaw_home, "pairing", "approve", "mailbox", command[4]).returncode == 1
            post.writes("eve", "/model other/one")
            assert await post.hears("eve") == "Good day, Eve."
            first, second = (json.dumps(each) for each in server.requests)
            assert "[mailbox eve] /model other/one" in first and "let me in" not in first
            assert "4711" not in first  # what is private stays out of her conversation
            assert "a stranger" in second or "untrusted content" in second  # and her words run no command
            assert not (openclaw_home.workspace / "here").exists()

            post.writes("ada", "hello")
            assert await post.hears("ada") == "Good day, Ada."
            third = json.dumps(server.requests[-1])
            assert "4711" in third and "mailbox eve" not in third
            async with gateway.client() as client:
                listed = await client.call("sessions.list", {})
            keys = {row["key"] for row in listed["sessions"]}
            assert {"agent:main:main", "agent:main:mailbox:direct:eve"} <= keys

            run(openclaw_home, "pairing", "remove", "mailbox", "eve")
            post.writes("eve", "still here?")
            assert "openclaw pairing approve" in await post.hears("eve")


async def test_the_first_who_is_let_in_becomes_the_owner(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([]) as server:
        post = Post(openclaw_home, server, {})
        with GatewayProcess(openclaw_home) as gateway:
            post.writes("ada", "it is me")
            code = (await post.hears("ada")).split()[-1]
            async with gateway.client() as client:
                done = await asyncio.to_thread(run, openclaw_home, "pairing", "approve", "mailbox", code.lower())
                assert "There was no owner yet: mailbox:ada may command the assistant now" in done.stdout
                await collect(client, lambda name, data: name == "config.changed")
            post.writes("ada", "/whoami")
            text = await post.hears("ada")
            assert "Session agent:main:main" in text


async def test_in_a_group_those_on_the_list_are_heard_when_they_mention_the_assistant(
    openclaw_home: TemporaryHome,
) -> None:
    group = {"groups": {"club": {}}, "groupAllowFrom": ["eve"], "dmPolicy": "allowlist", "allowFrom": ["zoe", "zed"]}
    with MockModelServer([says("Hello, Eve."), says("Hello, Ada."), says("One."), says("Two.")]) as server:
        post = Post(openclaw_home, server, group, "mailbox:ada")
        links = {"zoe": ["mailbox:zoe", "mailbox:zed"]}
        openclaw_home.configure({**post.settings, "session": {"dmScope": "per-peer", "identityLinks": links}})
        with GatewayProcess(openclaw_home) as gateway:
            post.writes("club@eve", "the heron is blue")
            post.writes("club@bob", "@bot hear me")
            post.writes("pub@eve", "@bot hear me")
            post.writes("club@eve", "@bot who is there?")
            assert await post.hears("club") == "Hello, Eve."
            post.writes("club@ada", "@bot and me?")
            assert await post.hears("club") == "Hello, Ada."
            assert len(server.requests) == 2
            asked = json.dumps(server.requests[-1])
            assert "[mailbox eve] who is there?" in asked and "[mailbox ada] and me?" in asked
            # What she said before, without a mention, is told with her question; what others say is not.
            assert "since your last reply - for context]\\n[mailbox eve] the heron is blue\\n" in asked
            assert "hear me" not in asked and asked.count("the heron is blue") == 1
            post.writes("club@ada", "/whoami")
            assert "Session agent:main:mailbox:group:club" in await post.hears("club")
            # A guest with two linked ids has one conversation, and is answered where each of them writes.
            for name, answer in (("zoe", "One."), ("zed", "Two.")):
                post.writes(name, f"I am {name}")
                assert await post.hears(name) == answer
            both = json.dumps(server.requests[-1]["messages"])
            assert "I am zoe" in both and "I am zed" in both and "who is there" not in both
        told = gateway.output()
        for why in (
            "it does not mention",
            "bob is not in channels.mailbox.groupAllowFrom",
            "to hear the group pub, add",
        ):
            assert why in told


async def test_a_group_mentions_the_assistant_in_the_words_of_the_owner(openclaw_home: TemporaryHome) -> None:
    """`groupChat` of the agent comes before `messages.groupChat`, for the words and for what is told of the group."""
    group = {"groups": {"club": {}}, "groupAllowFrom": ["eve"]}
    with MockModelServer([says("Hello, Eve.")]) as server:
        post = Post(openclaw_home, server, group, "mailbox:ada")
        chat = {"mentionPatterns": [r"\bmolty\b"], "historyLimit": 1}
        agents = {**post.settings["agents"], "list": [{"id": "main", "groupChat": chat}]}
        messages = {"groupChat": {"mentionPatterns": ["heron"], "historyLimit": 5}}
        openclaw_home.configure({**post.settings, "agents": agents, "messages": messages})
        with GatewayProcess(openclaw_home):
            post.writes("club@eve", "the heron is blue")
            post.writes("club@eve", "the wren is brown")
            post.writes("club@eve", "Molty, what do you think?")
            assert await post.hears("club") == "Hello, Eve."
        assert len(server.requests) == 1
        asked = json.dumps(server.requests[0]["messages"][-1])
        assert "the wren is brown" in asked and "the heron" not in asked


def test_open_has_to_be_said_twice(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"channels": {"mailbox": {"dmPolicy": "open"}}})
    done = run(openclaw_home, "config", "validate")
    assert done.returncode == 1 and 'open hears everybody: say so with "*" in allowFrom' in done.stdout + done.stderr


async def test_an_answer_outlives_the_gateway_that_was_asked(openclaw_home: TemporaryHome) -> None:
    """Killed while the model thinks, and stopped the same way: the next gateway answers where it was asked, once."""
    with MockModelServer([Hangs(), says("Good day, Ada."), Hangs(), says("Good night, Ada.")]) as server:
        post = Post(openclaw_home, server, {}, "mailbox:ada")
        with GatewayProcess(openclaw_home) as gateway:
            post.writes("ada", "hello")
            await server_asked(server, 1)
            gateway.kill()
        with GatewayProcess(openclaw_home) as gateway:
            assert await post.hears("ada") == "Good day, Ada."
            post.writes("ada", "good night")
            await server_asked(server, 3)
            gateway.stop(at_once=True)
        with GatewayProcess(openclaw_home):
            assert await post.hears("ada") == "Good night, Ada."
            await asyncio.sleep(0.3)
            assert not list((post.root / "outbox").glob("ada--*"))


async def test_what_could_not_be_delivered_is_delivered_after_a_kill(openclaw_home: TemporaryHome) -> None:
    """The platform takes nothing while the run ends; the answer waits in the outbox, also over a kill."""
    with MockModelServer([says("Good day, Ada.")]) as server:
        post = Post(openclaw_home, server, {}, "mailbox:ada")
        in_the_way = [post.root / "outbox" / f"ada--{number:06}.part" for number in range(1, 50)]
        for path in in_the_way:
            path.mkdir(parents=True)
        with GatewayProcess(openclaw_home) as gateway:
            post.writes("ada", "hello")
            await server_asked(server, 1)
            async with gateway.client() as client, asyncio.timeout(DEADLINE):
                while (await client.call("sessions.list", {}))["sessions"][0]["status"] == "running":
                    await asyncio.sleep(0.05)
            gateway.kill()
        for path in in_the_way:
            path.rmdir()
        with GatewayProcess(openclaw_home):
            assert await post.hears("ada") == "Good day, Ada."
    assert len(server.requests) == 1


async def server_asked(server: MockModelServer, count: int) -> None:
    await asyncio.to_thread(server.until_asked, count, DEADLINE)


TYPIST = """
import asyncio
from pathlib import Path
from openclaw.plugin import *

class Typist:
    name = 'typist'

    def __init__(self, place):
        self.place = place

    async def listen(self):
        yield Inbound(id='1', channel=self.name, sender='ada', text='hello')
        await asyncio.Event().wait()

    async def send(self, message):
        (self.place / 'answer.txt').write_text(message.text)
        return Receipt(id='1')

    async def typing(self, to):
        (self.place / f'typing-{to.to}').touch()

def register(api):
    api.channel(Typist(api.state))
"""


async def test_people_see_that_an_answer_is_being_written(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    plugin = write(tmp_path / "typist", "typist", TYPIST, channels=["typist"])
    with MockModelServer([Hangs("Let me see")]) as server:
        openclaw_home.configure(
            {
                **server.settings(),
                "plugins": {"load": {"paths": [str(plugin)]}},
                "commands": {"ownerAllowFrom": ["typist:ada"]},
            }
        )
        with GatewayProcess(openclaw_home):
            state = openclaw_home.state / "plugins" / "typist"
            async with asyncio.timeout(DEADLINE):
                while not (state / "typing-ada").exists():
                    await asyncio.sleep(0.02)
            assert not (state / "answer.txt").exists()


PINGS = """
def register(api):
    api.on("before_dispatch", ping)
    api.on("before_agent_finalize", revise)
    api.on("resolve_exec_env", lambda event, context: {"env": {"HOUSE": "green", "LD_PRELOAD": "/tmp/x"}})
    api.on("subagent_delivery_target", lambda event, context: {"origin": {"channel": "mailbox", "to": "bob"}})

def ping(event, context):
    if event.content.startswith("/ping") or event.content == "ping":
        return {"handled": True, "text": f"pong {event.channel} {event.sender_id}"}

def revise(event, context):
    if event.text == "A draft.":
        return {"action": "revise", "retry": {"instruction": "Say it in green."}}
"""
OWN = """

def claim(event, context):
    return {"handled": event.content == "for the postman"}

_register = register

def register(api):
    _register(api)
    api.on("inbound_claim", claim)
"""
TAKEN = ["before_dispatch", "before_agent_finalize", "resolve_exec_env", "subagent_delivery_target"]


async def test_plugins_take_messages_revise_answers_and_choose_where_results_go(openclaw_home: TemporaryHome) -> None:
    script: list[Any] = [
        says("A draft."),
        says("Green."),
        calls("exec", command="echo house $HOUSE"),
        says("Done."),
        calls("sessions_spawn", task="count the stars"),
        says("Busy."),  # who is asked first, the one that started it or the other, is open
        says("Busy."),
        says("There are 1,022 stars."),
    ]
    with MockModelServer(script) as server:
        post = Post(openclaw_home, server, {}, "mailbox:ada")
        code = (MAILBOX / "plugin.py").read_text() + OWN
        schema = json.loads((MAILBOX / "openclaw.plugin.json").read_text())["configSchema"]
        own = {"configSchema": schema, "channels": ["mailbox"], "hooks": ["inbound_claim"]}
        mailbox = write(openclaw_home.root / "own", "mailbox", code, **own)
        pings = write(openclaw_home.root / "plugins", "pings", PINGS, hooks=TAKEN)
        plugins = post.settings["plugins"]
        plugins["load"]["paths"] = [str(mailbox), str(pings)]
        plugins["entries"]["pings"] = {"hooks": {"allowConversationAccess": True}}
        tools = {"exec": {"security": "full", "ask": "off"}}
        openclaw_home.configure({**post.settings, "tools": tools})
        post.writes("ada", "ping")  # it is there before any plugin is
        with GatewayProcess(openclaw_home):
            assert await post.hears("ada") == "pong mailbox ada"
            post.writes("ada", "/ping")
            assert await post.hears("ada") == "pong mailbox ada"
            post.writes("ada", "for the postman")
            await post.read(3)
            assert server.requests == []
            post.writes("ada", "hello")
            assert await post.hears("ada") == "Green."
            assert "Say it in green." in json.dumps(server.requests[1])
            post.writes("ada", "which house?")
            assert await post.hears("ada") == "Done."
            asked = json.dumps(server.requests[-1]["messages"])
            assert "house green" in asked and "postman" not in asked and "draft" not in asked
            post.writes("ada", "count")
            assert await post.hears("ada") == "Busy."
            assert await post.hears("bob") == "There are 1,022 stars."
        assert not list((post.root / "outbox").glob("*.txt"))
        listed = run(openclaw_home, "audit", "list").stdout
        assert "env.LD_PRELOAD" in listed and "origin" in listed


DOORMAN = """
def register(api):
    def asked(event, context):
        said = " ".join((event.channel, event.account_id, event.sender_id, event.code, context.sender_id))
        (api.state / "asked.part").write_text(said)
        (api.state / "asked.part").rename(api.state / "asked.txt")

    api.on("channel_pairing_requested", asked)
    api.on("heartbeat_prompt_contribution", lambda event, context: {"appendContext": f"A door for {context.trigger}s."})
"""


async def test_a_plugin_hears_who_asks_to_be_let_in_and_adds_to_heartbeats(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("Hello."), says("It rang.")]) as server:
        post = Post(openclaw_home, server, {}, "mailbox:ada")
        points = ["channel_pairing_requested", "heartbeat_prompt_contribution"]
        doorman = write(openclaw_home.root / "plugins", "doorman", DOORMAN, hooks=points)
        post.settings["plugins"]["load"]["paths"].append(str(doorman))
        openclaw_home.configure(post.settings)
        post.writes("eve", "let me in")  # it is there before any plugin is
        with GatewayProcess(openclaw_home) as gateway:
            code = (await post.hears("eve")).split()[-1]
            asked = openclaw_home.state / "plugins" / "doorman" / "asked.txt"
            async with asyncio.timeout(DEADLINE):
                while not asked.exists():
                    await asyncio.sleep(0.02)
            assert asked.read_text() == f"mailbox default eve {code} eve"
            post.writes("ada", "hello")
            assert await post.hears("ada") == "Hello."
            async with gateway.client() as client:
                await client.call("wake", {"text": "the bell rang", "mode": "now"})
            assert await post.hears("ada") == "It rang."
            talk, beat = (json.dumps(each) for each in server.requests)
            assert "A door for heartbeats." in beat and "PLUGIN_CONTEXT" in beat and "A door" not in talk
        assert "heartbeat_prompt_contribution" in run(openclaw_home, "audit", "list").stdout


async def test_a_job_that_is_asked_for_in_a_chat_answers_in_that_chat(openclaw_home: TemporaryHome) -> None:
    job = {"schedule": {"kind": "at", "at": "20m"}, "sessionTarget": "isolated"}
    count = {**job, "name": "sheep", "payload": {"kind": "agentTurn", "message": "count the sheep"}}
    tea = {**job, "name": "tea", "sessionTarget": "main", "payload": {"kind": "systemEvent", "text": "Reminder: tea"}}
    script: list[Any] = [
        [calls("cron", action="add", job=count), calls("cron", action="add", job=tea)],
        says("Noted."),
        says("Hello."),
        says("All sheep are here."),
        says("Tea!"),
    ]
    with MockModelServer(script) as server:
        post = Post(openclaw_home, server, {"groups": {"club": {}}, "groupAllowFrom": []}, "mailbox:ada")
        with GatewayProcess(openclaw_home) as gateway:
            post.writes("club@ada", "@bot in twenty minutes, please")
            assert await post.hears("club") == "Noted."
            post.writes("ada", "hello")  # she goes on elsewhere
            assert await post.hears("ada") == "Hello."
            async with gateway.client() as client:
                jobs = {each["name"]: each for each in (await client.call("cron.list", {}))["jobs"]}
                for name, answer in (("sheep", "All sheep are here."), ("tea", "Tea!")):
                    await client.call("cron.run", {"id": jobs[name]["id"], "mode": "force"})
                    assert await post.hears("club") == answer
        assert not list((post.root / "outbox").glob("*.txt"))
