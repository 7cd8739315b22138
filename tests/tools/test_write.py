"""Writing: whole or not at all."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from openclaw.core.errors import StateError
from openclaw.process.tasks import run_in_thread
from openclaw.tools import paths
from openclaw.tools.files import WriteTool
from tests.tools.waiting import until

pytestmark = pytest.mark.anyio


def leftovers(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*.tmp")]


async def test_a_new_file_gets_its_parents(workspace, call):
    output = await call(WriteTool(), path="a/b/c.txt", content="h\u00e9llo\n")
    assert output.text == "Successfully wrote 7 bytes to a/b/c.txt"
    assert (workspace / "a/b/c.txt").read_bytes() == "h\u00e9llo\n".encode()
    assert output.details["changed"] is True


async def test_line_endings_are_written_as_given(workspace, call):
    await call(WriteTool(), path="a.txt", content="one\r\ntwo\n")
    assert (workspace / "a.txt").read_bytes() == b"one\r\ntwo\n"


async def test_the_same_content_again_is_no_change(workspace, call):
    (workspace / "a.txt").write_text("same")
    before = (workspace / "a.txt").stat()
    output = await call(WriteTool(), path="a.txt", content="same")
    assert output.details["changed"] is False
    assert (workspace / "a.txt").stat().st_ino == before.st_ino


async def test_the_mode_of_a_file_is_kept(workspace, call):
    script = workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    await call(WriteTool(), path="run.sh", content="new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


async def test_a_new_file_has_the_mode_of_any_new_file(workspace, call):
    (workspace / "ordinary").write_text("x")
    await call(WriteTool(), path="ours", content="x")
    assert (workspace / "ours").stat().st_mode == (workspace / "ordinary").stat().st_mode


async def test_a_link_stays_a_link_and_its_target_is_written(workspace, tmp_path, call):
    target = tmp_path / "real.txt"
    target.write_text("old")
    (workspace / "link.txt").symlink_to(target)
    await call(WriteTool(), path="link.txt", content="new")
    assert (workspace / "link.txt").is_symlink()
    assert target.read_text() == "new"


async def test_a_confined_write_does_not_go_through_a_link(workspace, tmp_path, call):
    (tmp_path / "out").mkdir()
    (workspace / "door").symlink_to(tmp_path / "out")
    (workspace / "dangling").symlink_to(tmp_path / "out" / "new.txt")
    for path in ("door/x.txt", "dangling", "../x.txt"):
        assert (await call(WriteTool(workspace_only=True), path=path, content="x")).is_error
    assert list((tmp_path / "out").iterdir()) == []


async def test_outside_the_workspace_is_allowed_when_not_confined(tmp_path, call):
    assert not (await call(WriteTool(), path="../free.txt", content="x")).is_error
    assert (tmp_path / "free.txt").read_text() == "x"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
async def test_what_is_not_a_file_is_not_written(workspace, call, make):
    make(workspace / "thing")
    output = await call(WriteTool(), path="thing", content="x")
    assert output.is_error
    assert "not a file" in output.text


async def test_a_file_in_the_way_of_a_directory_is_an_error(workspace, call):
    (workspace / "a").write_text("file")
    output = await call(WriteTool(), path="a/b/c.txt", content="x")
    assert output.is_error
    assert (workspace / "a").read_text() == "file"


async def test_half_a_character_is_refused(workspace, call):
    output = await call(WriteTool(), path="a.txt", content="bad \ud83d")
    assert output.is_error
    assert not (workspace / "a.txt").exists()


async def test_a_name_too_long_leaves_nothing_behind(workspace, call):
    output = await call(WriteTool(), path="new/dir/" + "x" * 300, content="x")
    assert output.is_error
    assert "No file was created" in output.text
    assert list(workspace.iterdir()) == []


def test_a_full_disk_leaves_the_old_file_and_no_rubbish(tmp_path):
    """A process that may write 64 KB a file meets the same error as one on a full disk."""
    target = tmp_path / "deep" / "data.txt"
    target.parent.mkdir()
    target.write_text("precious")
    script = """
import resource, signal, sys
from pathlib import Path
from openclaw.core.errors import StateError
from openclaw.tools.paths import replace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
for path in sys.argv[1:]:
    try:
        replace(Path(path), b"x" * 1_000_000)
    except StateError as error:
        print(error.message)
"""
    fresh = tmp_path / "made" / "for" / "it.txt"
    done = subprocess.run(
        [sys.executable, "-c", script, target, fresh], capture_output=True, text=True, check=True, timeout=120
    )
    first, second = done.stdout.splitlines()
    assert first == f"Could not write {target}: File too large. The file was left as it was."
    assert second == f"Could not write {fresh}: File too large. No file was created."
    assert target.read_text() == "precious"
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "made").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_write_protected_file_stays_as_it_is(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(0o444)
    with pytest.raises(StateError, match="Permission denied"):
        paths.replace(target, b"new")
    assert target.read_text() == "old"


async def test_a_cancelled_call_waits_for_its_thread():
    """Otherwise a write could land after the run was reported as stopped."""
    entered, finished = threading.Event(), threading.Event()

    def work(stop: threading.Event) -> None:
        entered.set()
        assert stop.wait(5)
        finished.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run_in_thread, work)
        await until(entered.is_set)
        group.cancel_scope.cancel()
    assert finished.is_set()


async def test_calls_for_one_file_share_its_name_however_it_is_spelled(workspace, context):
    (workspace / "real.txt").write_text("x")
    (workspace / "link.txt").symlink_to("real.txt")
    names = [WriteTool().resources({"path": path, "content": ""}, context) for path in ("real.txt", "./link.txt")]
    assert names[0] == names[1] == {str(workspace / "real.txt")}
    assert WriteTool().resources({"path": "", "content": ""}, context) == frozenset()
