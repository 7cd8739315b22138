"""What was allowed for good: added to, never lost, shared with other writers."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclaw.core.errors import StateError
from openclaw.security.approvals import ApprovalFile
from openclaw.security.exec_policy import ExecGrant
from openclaw.storage.locks import Holder, KernelLock

GRANT = {"id": "g1", "pattern": "/usr/bin/git", "argPattern": "status"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "exec-approvals.json"


def allowed(path: Path, agent: str = "main") -> list[dict[str, Any]]:
    return list(ApprovalFile(path).read().agents[agent].allowlist)


def test_no_file_allows_nothing(path: Path) -> None:
    document = ApprovalFile(path).read()
    assert (document.agents, document.defaults.security) == ({}, None)
    assert not path.exists()


def test_a_grant_is_there_after_it_was_given(path: Path) -> None:
    ApprovalFile(path).allow("main", [GRANT], 1)
    ApprovalFile(path).allow("ops", [{"id": "g2", "pattern": "rg"}], 1)
    assert allowed(path) == [GRANT]
    assert json.loads(path.read_text()) == {
        "version": 1,
        "agents": {"main": {"allowlist": [GRANT]}, "ops": {"allowlist": [{"id": "g2", "pattern": "rg"}]}},
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {file.name for file in path.parent.iterdir()} == {path.name, "state"}


def test_the_same_grant_is_kept_once(path: Path) -> None:
    for number in range(3):
        ApprovalFile(path).allow("main", [{**GRANT, "id": f"g{number}"}], 1)
    ApprovalFile(path).allow("main", [{"id": "other", "pattern": "/usr/bin/git"}], 1)
    assert [entry["id"] for entry in allowed(path)] == ["g0", "other"]


FULL = {
    "version": 1,
    "socket": {"path": "/run/x.sock", "token": "s3cret"},
    "defaults": {"security": "allowlist", "ask": "on-miss", "askFallback": "deny", "autoAllowSkills": True, "new": 1},
    "agents": {
        "main": {
            "security": "full",
            "futureField": {"deep": [1, 2.5, None]},
            "allowlist": [
                {
                    "id": "a",
                    "pattern": "~/bin/*",
                    "lastUsedAt": 1700000000000,
                    "lastUsedCommand": "x y",
                    "lastResolvedPath": "/home/me/bin/x",
                    "source": "allow-always",
                    "unknown": "kept",
                },
                {"pattern": "old entry without an id"},
            ],
        },
        "*": {"allowlist": [{"id": "w", "pattern": "ls"}]},
    },
    "extra": "kept",
}


def test_nothing_of_another_programs_document_is_lost(path: Path) -> None:
    path.write_text(json.dumps(FULL))
    ApprovalFile(path).allow("main", [GRANT], 1)
    expected = json.loads(json.dumps(FULL))
    expected["agents"]["main"]["allowlist"].append(GRANT)
    assert json.loads(path.read_text()) == expected
    assert list(json.loads(path.read_text())) == list(FULL)


def test_every_entry_can_be_judged(path: Path) -> None:
    path.write_text(json.dumps(FULL))
    document = ApprovalFile(path).read()
    assert (document.defaults.ask, document.agents["main"].security) == ("on-miss", "full")
    assert [msgspec.convert(entry, ExecGrant).pattern for entry in allowed(path)] == [
        "~/bin/*",
        "old entry without an id",
    ]


def test_the_sockets_token_is_not_in_what_is_read(path: Path) -> None:
    path.write_text(json.dumps(FULL))
    assert "s3cret" not in repr(ApprovalFile(path).read())


def test_the_old_name_of_the_main_agent_still_counts(path: Path) -> None:
    first, second = {"id": "1", "pattern": "a"}, {"id": "2", "pattern": "b"}
    path.write_text(json.dumps({"agents": {"default": {"ask": "always", "security": "deny", "allowlist": [first]}}}))
    agent = ApprovalFile(path).read().agents["main"]
    assert (agent.ask, list(agent.allowlist)) == ("always", [first])
    path.write_text(
        json.dumps(
            {
                "agents": {
                    "default": {"ask": "always", "allowlist": [first]},
                    "main": {"ask": "off", "allowlist": [second]},
                }
            }
        )
    )
    ApprovalFile(path).accept()
    ApprovalFile(path).allow("main", [GRANT], 1)
    assert json.loads(path.read_text())["agents"] == {"main": {"ask": "off", "allowlist": [first, second, GRANT]}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{torn",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"defaults": {"security": "yolo"}}',
        b'{"agents": []}',
        b'{"agents": {"main": {"allowlist": "ls"}}}',
        b'{"agents": {"main": {"allowlist": ["ls"]}}}',
        b'{"agents": {"main": {"allowlist": [{"id": "x"}]}}}',
        b'{"agents": {"default": []}}',
    ],
)
def test_a_damaged_file_grants_nothing_and_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StateError, match=r"exec-approvals\.json cannot be read.*mend it, or move it away"):
        ApprovalFile(path).read()
    with pytest.raises(StateError, match="mend it"):
        ApprovalFile(path).allow("main", [GRANT], 1)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_directory_in_its_place_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StateError, match="cannot read"):
        ApprovalFile(path).read()


def test_several_processes_lose_none_of_each_others_grants(path: Path) -> None:
    code = """
import sys
from pathlib import Path
from openclaw.security.approvals import ApprovalFile
for number in range(10):
    name = f"{sys.argv[2]}-{number}"
    ApprovalFile(Path(sys.argv[1])).allow("main", [{"id": name, "pattern": name}], 1)
"""
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abc"]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert sorted(entry["id"] for entry in allowed(path)) == sorted(f"{name}-{n}" for name in "abc" for n in range(10))


def test_a_writer_that_never_lets_go_is_reported(path: Path) -> None:
    with KernelLock(path.with_name(path.name + ".lock")) as lock:
        assert lock.take(Holder(pid=os.getpid(), created_at=1))
        with pytest.raises(StateError, match="being changed by another process: try again"):
            ApprovalFile(path, lock_seconds=0.05).allow("main", [GRANT], 1)
    assert not path.exists()
