"""The filter of system calls: what a sandboxed program may not ask of the kernel, decided and for real."""

import asyncio
import platform
import shutil
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from openclaw.core.errors import Unavailable
from openclaw.core.sandbox import SandboxLimits, SandboxSpec
from openclaw.security.sandboxes.bubblewrap import EAFNOSUPPORT, ENOSYS, EPERM, Bubblewrap, build_filter

ALLOW = 0x7FFF0000
X86, ARM, I386 = 0xC000003E, 0xC00000B7, 0x40000003


def judged(machine: str, number: int, *arguments: int, arch: int = 0) -> int:
    """What the kernel would do: the errno of a refusal, 0 when the call is allowed."""
    rules = build_filter(machine)
    assert rules is not None
    record = struct.pack(
        "=IIQ6Q", number, arch or {"x86_64": X86, "aarch64": ARM}[machine], 0, *[*arguments, *[0] * 6][:6]
    )
    steps = list(struct.iter_unpack("=HBBI", rules))
    at, word = 0, 0
    while True:
        code, then, other, value = steps[at]
        at += 1
        match code:
            case 0x20:
                word = struct.unpack_from("=I", record, value)[0]
            case 0x15:
                at += then if word == value else other
            case 0x45:
                at += then if word & value else other
            case 0x35:
                at += then if word >= value else other
            case 0x06:
                return 0 if value == ALLOW else value & 0xFFFF
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize(
    ("machine", "number", "arguments", "error"),
    [
        ("x86_64", 0, (), 0),  # read
        ("x86_64", 59, (), 0),  # execve
        ("x86_64", 57, (), 0),  # fork
        ("x86_64", 165, (), EPERM),  # mount
        ("x86_64", 272, (), EPERM),  # unshare
        ("x86_64", 321, (), EPERM),  # bpf
        ("x86_64", 250, (), EPERM),  # keyctl
        ("x86_64", 435, (), ENOSYS),  # clone3
        ("x86_64", 425, (), ENOSYS),  # io_uring_setup
        ("x86_64", 56, (0x01200011,), 0),  # clone as fork does it
        ("x86_64", 56, (0x10000011,), EPERM),  # clone with a user namespace
        ("x86_64", 16, (0, 0x5401), 0),  # ioctl TCGETS
        ("x86_64", 16, (0, 0x5412), EPERM),  # ioctl TIOCSTI
        ("x86_64", 16, (0, 0x541C), EPERM),
        ("x86_64", 41, (2, 1, 0), 0),  # socket AF_INET
        ("x86_64", 41, (16, 3, 0), 0),
        ("x86_64", 41, (17, 3, 0), EAFNOSUPPORT),  # AF_PACKET
        ("x86_64", 41, (40, 1, 0), EAFNOSUPPORT),  # AF_VSOCK
        ("x86_64", 0x40000000, (), ENOSYS),  # the second set
        ("x86_64", 600, (), 0),
        ("aarch64", 40, (), EPERM),  # mount
        ("aarch64", 97, (), EPERM),  # unshare
        ("aarch64", 63, (), 0),  # read
        ("aarch64", 29, (0, 0x5412), EPERM),
        ("aarch64", 220, (0x10000000,), EPERM),
        ("aarch64", 198, (1,), 0),
        ("aarch64", 198, (38,), EAFNOSUPPORT),  # AF_ALG
    ],
)
def test_calls_that_reach_the_kernel_itself_are_refused(
    machine: str, number: int, arguments: tuple[int, ...], error: int
) -> None:
    assert judged(machine, number, *arguments) == error


def test_the_calls_of_another_architecture_do_not_go_round_it() -> None:
    assert judged("x86_64", 21, arch=I386) == ENOSYS
    assert build_filter("riscv64") is None


PROBE = """
import ctypes, mmap, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(number, *args):
    return ctypes.get_errno() if libc.syscall(number, *args) < 0 else 0
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("Seccomp:")][0])
print(tried(272, 0x10000000), tried(321, 0, 0, 0), tried(250, 0, 0, 0))
try:
    socket.socket(40, socket.SOCK_STREAM)
except OSError as error:
    print(error.errno)
try:
    bytearray(3 << 30)
    print("allocated")
except MemoryError:
    print("no memory")
try:
    with open("/tmp/large", "wb") as file:
        file.truncate(3 << 30)
    print("written")
except OSError as error:
    print(error.strerror)
print(resource.getrlimit(resource.RLIMIT_NPROC)[0], resource.getrlimit(resource.RLIMIT_CORE)[0])
"""


@pytest.mark.anyio
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers below are of x86_64")
async def test_a_sandbox_has_the_filter_and_the_limits_by_itself(tmp_path: Path) -> None:
    engine = Bubblewrap({"PATH": "/usr/bin:/bin"})
    box = SandboxSpec(name="one", root=str(tmp_path / "one"), limits=SandboxLimits())
    if why := await engine.problem(box):
        pytest.skip(why)
    launch = await engine.launch(box, [await engine.python(box), "-c", PROBE], cwd="/tmp", env={})
    done = await asyncio.to_thread(
        partial(subprocess.run, launch.argv, cwd=launch.cwd, env=dict(launch.env), capture_output=True, text=True)
    )
    assert done.stdout.split("\n")[:6] == [
        "2",
        "1 1 1",
        "97",
        "no memory",
        "File too large",
        "512 0",
    ], (done.stdout, done.stderr, sys.version)


SCOPE = """#!/bin/sh
# Takes the place of systemd's: takes note of the limits, and starts the command.
echo "$XDG_RUNTIME_DIR $*" >> {told}
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


@pytest.mark.anyio
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed")
async def test_where_systemd_is_memory_is_counted_for_the_whole_command(tmp_path: Path) -> None:
    programs, told = tmp_path / "bin", tmp_path / "told"
    programs.mkdir()
    (programs / "systemd-run").write_text(SCOPE.format(told=told))
    (programs / "systemd-run").chmod(0o755)
    engine = Bubblewrap({"PATH": f"{programs}:/usr/bin:/bin"})
    box = SandboxSpec(name="one", root=str(tmp_path / "one"), limits=SandboxLimits(memory=1 << 30))
    if why := await engine.problem(box):
        pytest.skip(why)
    launch = await engine.launch(box, ["/bin/sh", "-c", "env"], cwd="/tmp", env={})
    done = await asyncio.to_thread(
        partial(subprocess.run, launch.argv, cwd=launch.cwd, env=dict(launch.env), capture_output=True, text=True)
    )
    assert "HOME=" in done.stdout and "XDG_RUNTIME_DIR" not in done.stdout
    asked = told.read_text().splitlines()[-1]
    assert asked.startswith("/run/user/") and "--user --scope" in asked
    assert "-p MemoryMax=1073741824 -p TasksMax=512 --" in asked


@pytest.mark.anyio
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed")
async def test_a_sandbox_that_holds_too_much_starts_no_command(tmp_path: Path) -> None:
    engine = Bubblewrap({"PATH": "/usr/bin:/bin"})
    box = SandboxSpec(name="one", root=str(tmp_path / "one"), limits=SandboxLimits(disk=1 << 20))
    if why := await engine.problem(box):
        pytest.skip(why)
    fill = "for n in 1 2 3 4 5; do head -c 1000000 /dev/zero > /tmp/$n; done"
    launch = await engine.launch(box, ["/bin/sh", "-c", fill], cwd="/tmp", env={})
    done = await asyncio.to_thread(partial(subprocess.run, launch.argv, cwd=launch.cwd, env=dict(launch.env)))
    assert done.returncode == 0
    engine = Bubblewrap({"PATH": "/usr/bin:/bin"})  # what was measured is remembered for a while
    with pytest.raises(Unavailable, match=r"holds 4 MB of files, more than 4.*sandbox recreate one"):
        await engine.launch(box, ["/bin/true"], cwd="/tmp", env={})
    (tmp_path / "one/tmp/1").unlink()
    (tmp_path / "one/tmp/2").unlink()
    await engine.launch(box, ["/bin/true"], cwd="/tmp", env={})
