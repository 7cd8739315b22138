"""What every sandbox does: programs run inside with nothing of ours, or do not run at all."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import Unavailable
from openclaw.core.sandbox import Mount, Sandbox, SandboxLaunch, SandboxLimits, SandboxSpec
from openclaw.security.sandboxes.bubblewrap import Bubblewrap
from openclaw.security.sandboxes.docker import Docker
from openclaw.security.sandboxes.service import open_sandbox
from openclaw.testing import FakeSandbox

pytestmark = pytest.mark.anyio

ENGINE = Path(__file__).parent.parent / "security" / "sandboxes" / "engine.py"
NEEDS_BWRAP = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed")


def pretend_docker(home: Path) -> Docker:
    """The adapter for Docker, with a program of the same words in the place of the client."""
    program = home / "bin" / "docker"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ENGINE}" "$@"\n')
    program.chmod(0o755)
    return Docker({"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(home), "OPENAI_API_KEY": "canary"})


@pytest.fixture
def box(tmp_path: Path) -> SandboxSpec:
    work, shared = tmp_path / "work", tmp_path / "shared"
    for each in (work, shared, tmp_path / "box"):
        each.mkdir()
    (work / "note.txt").write_text("from outside\n")
    (shared / "read.txt").write_text("only to be read\n")
    return SandboxSpec(
        name="openclaw-sbx-test",
        root=str(tmp_path / "box"),
        access="rw",
        mounts=(Mount(str(work), "/workspace", True), Mount(str(shared), "/shared")),
        env={"GIVEN": "yes"},
        limits=SandboxLimits(processes=64),
    )


@pytest.fixture(params=[pytest.param("process", marks=NEEDS_BWRAP), pytest.param("docker", marks=NEEDS_BWRAP), "fake"])
def sandbox(request: Any, tmp_path: Path) -> Sandbox:
    if request.param == "docker":
        return pretend_docker(tmp_path / "engine")
    if request.param == "fake":
        return FakeSandbox()
    return Bubblewrap({**os.environ, "OPENAI_API_KEY": "canary"})


async def run(
    sandbox: Sandbox, box: SandboxSpec, command: str, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    launch = await sandbox.launch(box, ["/bin/sh", "-c", command], cwd="/workspace", env=env or {})
    return _started(launch)


def _started(launch: SandboxLaunch) -> tuple[int, str]:
    done = subprocess.run(
        launch.argv, cwd=launch.cwd, env=dict(launch.env), capture_output=True, text=True, timeout=60, check=False
    )
    if launch.after:
        subprocess.run(launch.after, env=dict(launch.env), timeout=60, check=True)
    return done.returncode, done.stdout + done.stderr


async def test_a_program_runs_inside_with_the_variables_it_is_given(sandbox: Sandbox, box: SandboxSpec) -> None:
    assert await sandbox.problem(box) == ""
    code, said = await run(sandbox, box, "echo $GIVEN $MORE; exit 7", {"MORE": "too"})
    assert (code, said.strip()) == (7, "yes too")


async def test_nothing_of_our_environment_is_inherited(sandbox: Sandbox, box: SandboxSpec) -> None:
    _, said = await run(sandbox, box, "env")
    assert "canary" not in said
    assert "PYTEST" not in said


async def test_no_launch_carries_a_secret_of_ours(sandbox: Sandbox, box: SandboxSpec) -> None:
    launch = await sandbox.launch(box, ["true"], cwd="/workspace", env={})
    assert "canary" not in repr(launch)


class TestIsolation:
    """What only a real box can promise."""

    @pytest.fixture(params=[pytest.param("process", marks=NEEDS_BWRAP), pytest.param("docker", marks=NEEDS_BWRAP)])
    def sandbox(self, request: Any, tmp_path: Path) -> Sandbox:
        return pretend_docker(tmp_path / "engine") if request.param == "docker" else Bubblewrap(os.environ)

    async def test_what_is_mounted_is_there_and_writable_only_if_it_says_so(
        self, sandbox: Sandbox, box: SandboxSpec
    ) -> None:
        _, said = await run(sandbox, box, "cat note.txt /shared/read.txt; echo new > made.txt; echo no > /shared/x")
        assert said.startswith("from outside\nonly to be read\n")
        assert "Read-only" in said
        assert Path(box.mounts[0].source, "made.txt").read_text() == "new\n"

    async def test_the_rest_of_this_machine_is_not_there(
        self, sandbox: Sandbox, box: SandboxSpec, tmp_path: Path
    ) -> None:
        secret = tmp_path / "secret.txt"
        secret.write_text("canary")
        code, said = await run(sandbox, box, f"cat {secret}")
        assert code != 0
        assert "canary" not in said

    async def test_there_is_no_network(self, sandbox: Sandbox, box: SandboxSpec) -> None:
        _, said = await run(sandbox, box, "cat /proc/net/dev")
        assert {line.split(":")[0].strip() for line in said.splitlines() if ":" in line} <= {"lo"}

    async def test_its_home_and_tmp_last_from_one_command_to_the_next(self, sandbox: Sandbox, box: SandboxSpec) -> None:
        await run(sandbox, box, "echo a > /tmp/kept; echo b > ~/kept")
        assert (await run(sandbox, box, "cat /tmp/kept ~/kept"))[1] == "a\nb\n"

    async def test_nothing_outlives_its_command(self, sandbox: Sandbox, box: SandboxSpec) -> None:
        waiting = "until [ -e /workspace/go ]; do sleep 0.05; done; echo late > /workspace/late"
        await run(sandbox, box, f"setsid sh -c '{waiting}' >/dev/null 2>&1 & sleep 0.2")
        workspace = Path(box.mounts[0].source)
        (workspace / "go").touch()
        await run(sandbox, box, "sleep 1")
        assert not (workspace / "late").exists()

    async def test_the_system_cannot_be_changed(self, sandbox: Sandbox, box: SandboxSpec) -> None:
        code, said = await run(sandbox, box, "touch /usr/bin/x && echo changed")
        assert code != 0
        assert "changed" not in said


@pytest.mark.parametrize("backend", ["auto", "process", "docker", "podman"])
async def test_without_any_program_nothing_runs_and_the_sentence_names_one(
    backend: str, box: SandboxSpec, tmp_path: Path
) -> None:
    engine = open_sandbox(backend, {"PATH": str(tmp_path)})
    why = await engine.problem(box)
    assert "install" in why
    with pytest.raises(Unavailable):
        await engine.launch(box, ["true"], cwd="/workspace", env={})


async def test_an_engine_that_is_down_or_has_no_image_is_told_apart(box: SandboxSpec, tmp_path: Path) -> None:
    engine = pretend_docker(tmp_path / "engine")
    (tmp_path / "engine" / "down").touch()
    assert "does not answer" in await engine.problem(box)
    (tmp_path / "engine" / "down").unlink()
    (tmp_path / "engine" / "no-image").touch()
    assert "openclaw sandbox build" in await engine.problem(box)
    with pytest.raises(Unavailable):
        await engine.launch(box, ["true"], cwd="/workspace", env={})
