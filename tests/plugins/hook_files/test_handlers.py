"""Handlers in processes of their own: what they are told, what they may answer, and every way they go wrong."""

import os
import signal
import time
from pathlib import Path

import pytest

from openclaw.plugins.hooks.events import BootstrapFile, HookEvent, HookFileAnswer
from openclaw.plugins.hooks.manifest import HookDirectory
from openclaw.plugins.hooks.runner import HandlerFailed, handler_environment, run
from tests.plugins.hook_files.support import bootstrap_event, command_event, look, put

pytestmark = pytest.mark.anyio


def python(tmp_path: Path, code: str, **more: str) -> HookDirectory:
    put(tmp_path / "hooks", "h", code=code, **more)
    return look((tmp_path / "hooks", "openclaw-managed")).hooks[0]


def program(tmp_path: Path, text: str) -> HookDirectory:
    put(tmp_path / "hooks", "h", program=text)
    return look((tmp_path / "hooks", "openclaw-managed")).hooks[0]


async def told(
    hook: HookDirectory, event: HookEvent | None = None, limit: float = 30.0, **options: object
) -> HookFileAnswer:
    env = handler_environment(hook, os.environ, {})
    return await run(hook, event or command_event(), options, env=env, limit=limit)


async def fails(hook: HookDirectory, event: HookEvent | None = None, limit: float = 30.0) -> str:
    with pytest.raises(HandlerFailed) as failed:
        await told(hook, event, limit)
    return failed.value.message


async def test_a_python_handler_reads_the_event_and_says_something(tmp_path: Path) -> None:
    hook = python(
        tmp_path,
        "async def handler(event):\n"
        "    print('a remark that is no answer')\n"
        "    event.messages.append(f'{event.name} in {event.session_key} at {event.timestamp} for'\n"
        '                          f\' {event.context["agentId"]}, {event.options["greeting"]}\')\n',
    )
    answer = await told(hook, greeting="hi")
    assert answer.messages == ("command:new in agent:main:main at 2026-01-02T03:04:05.000Z for main, hi",)


async def test_a_plain_function_and_another_name_work_too(tmp_path: Path) -> None:
    hook = python(tmp_path, "def greet(event):\n    event.messages.append('hello')\n", more="    export: greet\n")
    assert (await told(hook)).messages == ("hello",)


async def test_a_program_gets_the_event_on_its_input_and_answers_on_its_output(tmp_path: Path) -> None:
    hook = program(
        tmp_path, """read event; case "$event" in *'"type":"command"'*) echo '{"messages": ["heard"]}';; esac"""
    )
    assert (await told(hook)).messages == ("heard",)


async def test_a_program_that_says_nothing_or_does_not_listen_is_fine(tmp_path: Path) -> None:
    hook = program(tmp_path, "exec <&-; exit 0")
    assert (
        await told(hook, bootstrap_event(BootstrapFile(name="A", path="/a", content="x" * 1_000_000)))
        == HookFileAnswer()
    )


async def test_a_handler_can_change_the_files_of_a_prompt(tmp_path: Path) -> None:
    hook = python(
        tmp_path,
        "def handler(event):\n"
        "    files = event.context['bootstrapFiles']\n"
        "    files[0]['content'] = files[0]['content'].upper()\n"
        "    files.append({'name': 'MORE.md', 'path': 'MORE.md', 'content': 'more'})\n",
    )
    answer = await told(hook, bootstrap_event(BootstrapFile(name="SOUL.md", path="/w/SOUL.md", content="kind")))
    assert answer.bootstrap_files == (
        BootstrapFile(name="SOUL.md", path="/w/SOUL.md", content="KIND"),
        BootstrapFile(name="MORE.md", path="MORE.md", content="more"),
    )


async def test_a_handler_sees_no_secret_it_does_not_name(tmp_path: Path) -> None:
    hook = python(
        tmp_path,
        "import os\ndef handler(event):\n    event.messages.append(' '.join(sorted(os.environ)))\n",
        more="    requires: {env: [WANTED]}\n",
    )
    environ = {**os.environ, "OPENAI_API_KEY": "sk-secret", "WANTED": "yes"}
    env = handler_environment(hook, environ, {"OWN": "set"})
    (names,) = (await run(hook, command_event(), {}, env=env, limit=30)).messages
    assert "OPENAI_API_KEY" not in names and "WANTED" in names and "OWN" in names


async def test_a_handler_that_raises_is_told_in_one_line(tmp_path: Path) -> None:
    hook = python(tmp_path, "def handler(event):\n    raise ValueError('no such\\nthing')\n")
    said = await fails(hook)
    assert said == "its handler ended with code 1: thing"


async def test_a_handler_that_ends_the_interpreter_is_told(tmp_path: Path) -> None:
    hook = python(tmp_path, "import os, signal\ndef handler(event):\n    os.kill(os.getpid(), signal.SIGSEGV)\n")
    assert await fails(hook) == f"its handler was ended by signal {int(signal.SIGSEGV)}"


async def test_a_handler_without_its_function_or_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert "has no function handler(event)" in await fails(python(tmp_path / "a", "x = 1\n"))
    assert "SyntaxError" in await fails(python(tmp_path / "b", "def handler(event:\n"))
    assert "No module named 'nowhere'" in await fails(python(tmp_path / "c", "import nowhere\n"))


async def test_a_handler_that_hangs_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    hook = program(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; wait")
    assert await fails(hook, limit=1.0) == "its handler took longer than 1 s and was stopped"
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline


async def test_a_handler_that_leaves_a_program_behind_is_not_waited_for(tmp_path: Path) -> None:
    hook = program(tmp_path, 'echo \'{"messages": ["done"]}\'; sleep 600 &')
    assert (await told(hook, limit=60)).messages == ("done",)


async def test_a_handler_that_writes_a_hundred_megabytes_is_stopped(tmp_path: Path) -> None:
    hook = program(tmp_path, "head -c 104857600 /dev/zero")
    assert await fails(hook) == "its handler wrote more than 4 MiB and was stopped"
    hook = python(tmp_path / "py", "def handler(event):\n    event.messages.append('x' * 100_000_000)\n")
    assert await fails(hook) == "its handler wrote more than 4 MiB and was stopped"


async def test_remarks_without_end_are_read_and_forgotten(tmp_path: Path) -> None:
    hook = program(tmp_path, "head -c 20971520 /dev/zero >&2; echo last words >&2; exit 3")
    assert (await fails(hook)).endswith("last words")


GARBAGE = {
    "words": "echo hello",
    "a list": "echo '[1]'",
    "bytes": "printf '\\377\\376'",
    "another shape": """echo '{"messages": "one"}'""",
    "files of another shape": """echo '{"bootstrapFiles": [1]}'""",
}


@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE.keys())
async def test_an_answer_that_makes_no_sense_is_told(tmp_path: Path, text: str) -> None:
    assert (await fails(program(tmp_path, text), bootstrap_event())).startswith("its handler's answer cannot be read")


async def test_a_program_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    hook = program(tmp_path, "exit 0")
    Path(hook.handler).write_text("#!/nowhere/interpreter\n")
    assert await fails(hook) == "its handler cannot be started: No such file or directory"


async def test_answers_are_kept_short(tmp_path: Path) -> None:
    hook = python(tmp_path, "def handler(event):\n    event.messages += ['x' * 10_000] * 50\n")
    answer = await told(hook)
    assert len(answer.messages) == 20 and {len(each) for each in answer.messages} == {4_000}
