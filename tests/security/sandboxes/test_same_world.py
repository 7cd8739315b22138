"""Files and commands of one box: what one sees the other sees, and neither sees more."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.sandbox import BoundSandbox, Mount, SandboxSpec
from openclaw.core.tool import Effects, Output, ToolContext
from openclaw.process.tasks import SystemClock
from openclaw.security.sandboxes.bubblewrap import Bubblewrap
from openclaw.testing import FakeSandbox
from openclaw.tools.build import ToolState, build_tools

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed"),
]
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6364f8cf500f00038601803"
    "45f7d6b0000000049454e44ae426082"
)


class World:
    """The tools of one box, called by name."""

    def __init__(self, root: Path, standing: ToolState, **settings: Any) -> None:
        self.work = root / "work"
        self.work.mkdir(exist_ok=True)
        (root / "secret.txt").write_text("canary")
        self.secret = root / "secret.txt"
        self.seen: list[Any] = []
        box = SandboxSpec(
            name="openclaw-sbx-x", root=str(root / "box"), mounts=(Mount(str(self.work), "/workspace", True),)
        )
        boxed = BoundSandbox(Bubblewrap(os.environ), box)
        built = build_tools(
            shell="/bin/sh",
            env={"PATH": os.environ["PATH"], "SECRET_TOKEN": "canary"},
            background=standing.background,
            look=self._look,
            **{"boxed": boxed, "workers": standing.workers, **settings},
        )
        self.tools = {tool.spec.name: tool for tool in built}
        self.context = ToolContext(call_id="c", workspace=root, session_key="agent:main:x", env={"SKILL_KEY": "canary"})

    async def _look(self, agent: str, prompt: str, images: Any) -> str:
        self.seen.append((prompt, len(images)))
        return "a pixel"

    async def do(self, name: str, **args: Any) -> Output:
        async with asyncio.timeout(60):
            return await self.tools[name].call(args, self.context)


@pytest.fixture
async def standing() -> AsyncIterator[ToolState]:
    kept = ToolState(SystemClock())
    yield kept
    await kept.close()


@pytest.fixture
def world(tmp_path: Path, standing: ToolState) -> World:
    return World(tmp_path, standing)


async def test_a_file_written_by_a_tool_is_the_one_a_command_reads_and_the_other_way_round(world: World) -> None:
    assert not (await world.do("write", path="notes/a.txt", content="by write\n")).is_error
    said = await world.do("exec", command="cat notes/a.txt; pwd; echo by exec > b.txt")
    assert said.text == "by write\n/workspace"
    assert (await world.do("read", path="/workspace/b.txt")).text.startswith("by exec")
    assert (await world.do("edit", path="b.txt", edits=[{"oldText": "exec", "newText": "edit"}])).text.startswith(
        "Successfully replaced"
    )
    assert (await world.do("exec", command="cat b.txt")).text == "by edit"
    patch = "*** Begin Patch\n*** Add File: c.txt\n+patched\n*** End Patch"
    assert "A c.txt" in (await world.do("apply_patch", input=patch)).text
    assert (await world.do("ls")).text.splitlines() == ['"b.txt"', '"c.txt"', '"notes/"']
    assert (await world.do("grep", pattern="by")).text.splitlines() == ["b.txt:1: by edit", "notes/a.txt:1: by write"]
    assert (await world.do("find", pattern="*.txt")).text.splitlines() == ["b.txt", "c.txt", "notes/a.txt"]


@pytest.mark.parametrize("path", ["/tmp/x.txt", "~/x.txt", "/workspace/x.txt"])
async def test_every_place_of_the_box_is_the_same_for_both(world: World, path: str) -> None:
    await world.do("write", path=path, content="here\n")
    assert (await world.do("exec", command=f"cat {path}")).text == "here"
    inside = (await world.do("exec", command=f"echo more >> {path}; readlink -f {path}")).text
    assert (await world.do("read", path=inside)).text.startswith("here\nmore")


async def test_what_is_outside_is_outside_for_every_tool(world: World) -> None:
    for name, args in (
        ("read", {"path": str(world.secret)}),
        ("exec", {"command": f"cat {world.secret}"}),
        ("grep", {"pattern": "canary", "path": str(world.secret.parent)}),
        ("ls", {"path": str(world.secret.parent)}),
        ("image", {"image": str(world.secret)}),
    ):
        assert "canary" not in (await world.do(name, **args)).text, name
        assert "secret.txt" not in (await world.do("ls", path=str(world.secret.parent))).text


async def test_a_link_out_of_the_box_leads_nowhere(world: World) -> None:
    (world.work / "link").symlink_to(world.secret)
    (world.work / "passwd").symlink_to("/etc/passwd")
    assert (await world.do("read", path="link")).is_error
    assert (await world.do("read", path="passwd")).text.startswith("agent:x:")
    await world.do("write", path="link", content="overwritten")
    assert world.secret.read_text() == "canary"


async def test_variables_of_the_host_and_of_skills_stay_outside(world: World) -> None:
    said = (await world.do("exec", command="env", env={"MINE": "1"})).text
    assert "canary" not in said
    assert "MINE=1" in said
    assert "OPENCLAW_SHELL=exec" in said


async def test_there_is_no_network_and_no_way_to_the_gateways_port(world: World) -> None:
    said = await world.do("exec", command="cat /proc/net/dev | grep -c eth; getent hosts example.com; echo $?")
    assert said.text.splitlines()[0] == "0"
    assert said.text.splitlines()[-1] != "0"


async def test_background_commands_and_terminals_are_in_the_box_too(world: World) -> None:
    started = await world.do("exec", command="cat > typed.txt", background=True)
    name = started.details["sessionId"]  # type: ignore[index]
    typing = {"action": "write", "sessionId": name, "data": "hello", "eof": True}
    assert Effects.CONTAINED in world.tools["process"].effects(typing)
    await world.do("process", **typing)
    await world.do("process", action="poll", sessionId=name, timeout=20_000)
    assert (world.work / "typed.txt").read_text() == "hello"
    assert (await world.do("exec", command="tty; hostname", pty=True)).text.splitlines()[-1] == "sandbox"


async def test_killing_a_background_command_ends_everything_it_started(world: World) -> None:
    command = "setsid sh -c 'echo up > up; exec sleep 300' & while :; do sleep 1; done"
    started = await world.do("exec", command=command, background=True)
    async with asyncio.timeout(120):
        while not (world.work / "up").exists():
            await asyncio.sleep(0.02)
    await world.do("process", action="kill", sessionId=started.details["sessionId"])  # type: ignore[index]
    left = [text for text in _command_lines() if "sleep\x00300" in text and str(world.work) in text]
    assert left == []


def _command_lines() -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_text(errors="replace"))
        except OSError:
            continue
    return found


async def test_files_of_the_box_are_named_as_this_machine_knows_them(world: World) -> None:
    (world.work / "link").symlink_to("/etc/hostname")
    writes = world.tools["write"]

    def named(path: str) -> set[str]:
        return set(writes.resources({"path": path, "content": ""}, world.context)) - {"box:openclaw-sbx-x"}

    assert named("a/b.txt") == named("/workspace/a/b.txt") == {str(world.work / "a" / "b.txt")}
    assert named("/tmp/x") == {str(world.work.parent / "box" / "tmp" / "x")}
    assert named("link") == named("/etc/passwd") == set()
    await world.do("write", path="a.txt", content="x")
    assert (await world.do("read", path="a.txt")).touched == (str(world.work / "a.txt"),)


async def test_images_of_the_box_are_looked_at(world: World) -> None:
    (world.work / "dot.png").write_bytes(PIXEL)
    assert len((await world.do("image", image="dot.png")).content) == 2
    world.context = ToolContext(call_id="c", workspace=world.work, accepts_images=False)
    assert (await world.do("image", image="dot.png", prompt="what?")).text == "a pixel"
    assert world.seen == [("what?", 1)]


async def test_a_cancelled_search_ends_and_the_next_call_is_answered(world: World) -> None:
    (world.work / "a.txt").write_text("x\n")
    async with asyncio.timeout(120):
        await world.do("read", path="a.txt")  # what does the work is there: it is the search that gets cancelled
        task = asyncio.create_task(world.do("grep", pattern="words that stand nowhere", path="/usr"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "x" in (await world.do("read", path="a.txt")).text


async def test_bad_arguments_get_the_same_answers_as_outside(world: World) -> None:
    assert "File not found: /workspace/none.txt" in (await world.do("read", path="none.txt")).text
    assert "empty" in (await world.do("read", path=" ")).text
    assert "half a surrogate pair" in (await world.do("write", path="x", content="\ud800")).text
    assert (await world.do("exec", command="true", workdir="/nowhere")).details["exitCode"] != 0  # type: ignore[index]


async def test_without_an_engine_no_tool_does_anything_and_each_says_what_to_install(
    tmp_path: Path, standing: ToolState
) -> None:
    box = SandboxSpec(name="x", root=str(tmp_path / "b"), mounts=(Mount(str(tmp_path), "/workspace", True),))
    boxed = BoundSandbox(FakeSandbox("The sandbox needs bubblewrap: apt install bubblewrap."), box)
    world = World(tmp_path, standing, boxed=boxed)
    for name, args in (("exec", {"command": "touch ran"}), ("write", {"path": "ran", "content": ""}), ("ls", {})):
        answer = await world.do(name, **args)
        assert answer.is_error
        assert "apt install bubblewrap" in answer.text
    assert not (tmp_path / "ran").exists()


async def test_leaving_the_box_needs_to_be_switched_on(tmp_path: Path, standing: ToolState) -> None:
    closed = World(tmp_path, standing)
    assert "elevated is off" in (await closed.do("exec", command="true", elevated=True)).text
    assert Effects.CONTAINED in closed.tools["exec"].effects({"command": "true"})
    opened = World(tmp_path, standing, elevated="on")
    assert (await opened.do("exec", command=f"cat {opened.secret}", elevated=True)).text == "canary"
    assert Effects.LEAVES_SANDBOX in opened.tools["exec"].effects({"command": "true"})
    assert Effects.CONTAINED in opened.tools["exec"].effects({"command": "true", "elevated": False})
    assert "canary" not in (await opened.do("exec", command=f"cat {opened.secret}", host="sandbox")).text
