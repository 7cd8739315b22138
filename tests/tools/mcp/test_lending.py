"""What MCP servers have besides tools, and servers that want to know who calls."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openclaw.core.messages import Image
from openclaw.core.tool import Effects
from tests.commandline import Child, forked
from tests.tools.mcp.test_servers import configured, free_port, offered, use

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("quick_workers")]


def library() -> dict[str, Any]:
    command, *args = forked("tests.tools.mcp.library")
    return {"command": command, "args": args}


def inside(text: str) -> str:
    return text.partition("\n---\n")[2].partition("\n<<<END_EXTERNAL")[0]


async def test_resources_are_listed_and_read(openclaw_home):
    async with configured(openclaw_home, {"library": library()}) as app:
        tools = await offered(app)
        lister, reader = tools["library__resources_list"], tools["library__resources_read"]
        assert lister.effects({}) == Effects.FETCHES
        found = json.loads(inside((await use(lister, openclaw_home)).text))
        assert {each["uri"] for each in found["resources"]} == {"book://boats", "book://cover", "book://sound"}
        assert [each["uriTemplate"] for each in found["templates"]] == ["shelf://{number}/first"]
        text = await use(reader, openclaw_home, uri="book://boats")
        assert "A boat floats." in inside(text.text)
        assert "<|im_start|>" not in text.text
        assert text.origins[0].label == "external"
        assert "first book of shelf 7" in (await use(reader, openclaw_home, uri="shelf://7/first")).text
        cover = await use(reader, openclaw_home, uri="book://cover")
        assert any(isinstance(block, Image) and block.mime_type == "image/png" for block in cover.content)
        assert "30 bytes of audio/ogg: not shown" in (await use(reader, openclaw_home, uri="book://sound")).text
        missing = await use(reader, openclaw_home, uri="book://nowhere")
        assert missing.is_error
        wrong = await use(reader, openclaw_home, url="book://boats")
        assert "do not fit the server's schema" in wrong.text


async def test_prompts_are_listed_and_filled_in(openclaw_home):
    async with configured(openclaw_home, {"library": library()}) as app:
        tools = await offered(app)
        found = json.loads(inside((await use(tools["library__prompts_list"], openclaw_home)).text))
        (prompt,) = found["prompts"]
        assert (prompt["name"], prompt["arguments"][0]["name"]) == ("summary", "title")
        got = await use(tools["library__prompts_get"], openclaw_home, name="summary", arguments={"title": "Boats"})
        assert inside(got.text) == "user: Summarise Boats in one line."
        refused = await use(tools["library__prompts_get"], openclaw_home, name="nothing")
        assert refused.is_error


async def test_they_pass_the_filter_like_tools_and_are_not_there_without_need(openclaw_home, shop):
    chosen = {**library(), "toolFilter": {"exclude": ["prompts_*"]}}
    async with configured(openclaw_home, {"library": chosen, "shop": shop}) as app:
        names = set(await offered(app))
    assert {"library__resources_list", "library__resources_read", "library__roots"} <= names
    assert not {name for name in names if "prompts" in name or name.startswith("shop__resources")}


async def test_a_server_is_not_told_which_directories_there_are(openclaw_home):
    async with configured(openclaw_home, {"library": library()}) as app:
        asked = await use((await offered(app))["library__roots"], openclaw_home)
    assert asked.is_error
    assert str(openclaw_home.workspace) not in asked.text


@asynccontextmanager
async def guarded(token: str) -> AsyncIterator[str]:
    port = free_port()
    server = Child(
        "http", str(port), token, module="tests.tools.mcp.library", env=os.environ, stdin=0, stdout=1, stderr=2
    )
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait)


@pytest.mark.parametrize(
    "given",
    [
        {"source": "env", "id": "LIBRARY_TOKEN"},
        "Bearer ${LIBRARY_TOKEN}",
    ],
)
async def test_a_token_from_a_secret_opens_a_guarded_server(openclaw_home, given: Any):
    async with guarded("canary-of-the-library") as url:
        settings = {"url": url, "headers": {"Authorization": given}}
        environ = {"LIBRARY_TOKEN": "canary-of-the-library"}
        async with configured(openclaw_home, {"library": settings}, environ=environ) as app:
            assert "library__roots" in await offered(app)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer canary-of-another"}])
async def test_a_guarded_server_without_the_right_token_says_what_to_do(openclaw_home, caplog, headers):
    async with (
        guarded("canary-of-the-library") as url,
        configured(openclaw_home, {"library": {"url": url, "headers": headers}}) as app,
    ):
        assert await offered(app) == {}
    assert "it answered 401" in caplog.text
    assert "headers.Authorization" in caplog.text
    assert "canary" not in caplog.text
