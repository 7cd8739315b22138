"""Ordinary tasks go through without a question that the rules for commands would not have asked anyway."""

import asyncio
from contextlib import suppress

import pytest

from openclaw.testing import TemporaryHome
from tests.security.labels.benign import FILES, PAGES, TASKS, Task
from tests.security.labels.world import World, world

pytestmark = pytest.mark.anyio


async def heard(it: World, session: str, task: Task, said: str) -> str:
    """The conversation, once it shows that the task was done; as it is after a while, if it never does."""
    found = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            while not task.check(it.workspace, said + found):
                found = " ".join(message.text for message in await it.messages(session))
                await asyncio.sleep(0.01)
    return found


async def test_ordinary_tasks_need_no_question(openclaw_home: TemporaryHome, capsys) -> None:
    wrong: list[str] = []
    async with world(openclaw_home) as it:
        await it.says("hello")
        for name, text in FILES.items():
            it.put(name, text)
        it.put(".env", "TOKEN=abc\n")
        for path, text in PAGES.items():
            it.page(path, text.replace("{port}", str(it.site.port)))
        for number, task in enumerate(TASKS):
            asked = len(it.owner.asked)
            session = f"benign-{number}"
            said = ""
            for words in task.says:
                outcome = await it.says(words.replace("@", f"http://127.0.0.1:{it.site.port}"), session)
                said += " ".join(outcome.texts)
            said += await heard(it, session, task, said)
            wrong += [f"{task.name}: asked: {each.command}: {each.why}" for each in it.owner.asked[asked:]]
            if not task.check(it.workspace, said):
                wrong.append(f"{task.name}: not done: {said[-600:]}")
    with capsys.disabled():
        print(f"\n{len(TASKS)} ordinary tasks, {len(wrong)} of them asked or failed")
    assert not wrong, "\n".join(wrong)
    assert len(TASKS) >= 100 and len({task.name for task in TASKS}) == len(TASKS)
