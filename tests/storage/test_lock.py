"""The kernel's lock: whoever dies lets go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.core.errors import StateError
from openclaw.storage.locks import Holder, KernelLock, read_holder

ME = Holder(pid=os.getpid(), created_at=1, owner="test")

HOLD = """
import os, sys
from pathlib import Path
from openclaw.storage.locks import Holder; from openclaw.storage.locks import KernelLock
lock = KernelLock(Path(sys.argv[1]))
print(lock.take(Holder(pid=os.getpid(), created_at=1, owner="child")), flush=True)
sys.stdin.read()
"""


def hold(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_one_holder_at_a_time_who_says_who_it_is(tmp_path: Path) -> None:
    first, second = KernelLock(tmp_path / "x.lock"), KernelLock(tmp_path / "x.lock")
    assert first.take(ME)
    assert not second.take(ME)
    assert read_holder(first.path) == ME
    assert str(ME) == f"process {os.getpid()} (test)"
    first.release()
    first.release()
    assert second.take(ME)
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_taking_twice_with_one_object_is_a_bug(tmp_path: Path) -> None:
    with KernelLock(tmp_path / "x.lock") as lock:
        assert lock.take(ME)
        with pytest.raises(RuntimeError):
            lock.take(ME)


def test_a_killed_owner_never_blocks(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    lock = KernelLock(path)
    with hold(path) as process:
        assert not lock.take(ME)
        holder = read_holder(path)
        assert holder is not None
        assert (holder.pid, holder.owner) == (process.pid, "child")
        process.kill()
    assert path.exists()  # nobody tidied up
    assert lock.take(ME)
    assert read_holder(path) == ME  # the dead owner's longer name is gone
    lock.release()


def test_waiting_ends_when_the_holder_lets_go_or_time_is_up(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    lock = KernelLock(path)
    with hold(path) as process:
        assert not lock.wait(ME, 0.05)
        assert process.stdin is not None
        process.stdin.close()
        assert lock.wait(ME, 10)
    lock.release()


def test_a_paused_lock_is_free_for_others_and_taken_again_with_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    lock, other = KernelLock(path), KernelLock(path)
    assert lock.take(Holder(pid=os.getpid(), created_at=1, owner="a longer name than the other"))
    lock.pause()
    assert path.exists() and read_holder(path) is None
    assert other.take(ME) and read_holder(path) == ME
    assert not lock.take(ME)
    other.release()  # and removes the file
    assert lock.take(ME) and read_holder(path) == ME
    lock.pause()
    assert other.take(Holder(pid=os.getpid(), created_at=1, owner="a longer name than the other"))
    other.pause()
    assert lock.take(ME) and read_holder(path) == ME
    other.release()
    lock.pause()
    file = path.stat().st_ino
    assert lock.take(ME) and path.stat().st_ino == file
    lock.pause()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_a_paused_lock_leaves_the_file_to_whoever_has_it(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    lock, other = KernelLock(path), KernelLock(path)
    assert lock.take(ME)
    lock.pause()
    assert other.take(ME)
    lock.release()
    assert path.exists() and not KernelLock(path).take(ME)
    other.release()
    assert list(tmp_path.iterdir()) == []


CROWD = """
import os, sys
from pathlib import Path
from openclaw.storage.locks import Holder; from openclaw.storage.locks import KernelLock
lock, inside = KernelLock(Path(sys.argv[1])), sys.argv[1] + ".inside"
for number in range(200):
    while not lock.take(Holder(pid=os.getpid(), created_at=1)):
        pass
    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
    os.unlink(inside)
    if number % 3:
        lock.pause()
    else:
        lock.release()
lock.release()
"""


def test_the_file_may_come_and_go_and_still_there_is_one_holder(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", CROWD, str(tmp_path / "x.lock")], stderr=subprocess.DEVNULL)
        for _ in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_descriptor_and_no_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.lock"
    before = open_files()
    holder = KernelLock(path)
    for _ in range(20):
        assert holder.take(ME)
        assert not KernelLock(path).take(ME)
        holder.release()
    assert open_files() == before
    assert list(path.parent.iterdir()) == []


def test_a_lock_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    before = open_files()
    with pytest.raises(StateError, match=r"cannot lock .*x\.lock"):
        KernelLock(tmp_path / "file" / "x.lock").take(ME)
    (tmp_path / "x.lock").mkdir()
    with pytest.raises(StateError, match=r"cannot lock .*x\.lock"):
        KernelLock(tmp_path / "x.lock").take(ME)
    assert open_files() == before


def test_a_full_disk_costs_the_name_and_not_the_lock(tmp_path: Path) -> None:
    code = HOLD.replace(
        "lock = ", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\nlock = "
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "x.lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert not KernelLock(tmp_path / "x.lock").take(ME)
        assert read_holder(tmp_path / "x.lock") is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"pid":"x"}', b"\xff\xfe"])
def test_a_file_that_names_nobody_is_no_error(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "x.lock").write_bytes(body)
    assert read_holder(tmp_path / "x.lock") is None
    assert KernelLock(tmp_path / "x.lock").take(ME)
    assert read_holder(tmp_path / "x.lock") == ME


def test_another_lock_that_took_the_files_place_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    old, new = KernelLock(path), KernelLock(path)
    assert old.take(ME)
    path.unlink()  # somebody's idea of a repair
    assert new.take(ME)
    old.release()
    assert path.exists()
    assert not KernelLock(path).take(ME)
    new.release()
