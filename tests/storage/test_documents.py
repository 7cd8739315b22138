"""Documents that several gateways share, through the stores that write them."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from openclaw.channels.pairing import SenderPairing
from openclaw.core.errors import StateError
from openclaw.process.tasks import SystemClock
from openclaw.security.approvals import ApprovalFile
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog
from openclaw.storage import documents
from openclaw.storage.documents import SharedDocuments, sharing
from openclaw.storage.locks import shared
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite

pytestmark = pytest.mark.anyio


class Homes:
    """Two gateways on one database."""

    def __init__(self, root: Path) -> None:
        self.one, self.other = root / "one", root / "other"
        self.open_db = partial(Sqlite.open, root / "state.sqlite", STATE_MIGRATIONS)
        self.shared: dict[Path, SharedDocuments] = {}

    async def start(self, stack: AsyncExitStack) -> None:
        for state in (self.one, self.other):
            state.mkdir()
            self.shared[state] = await stack.enter_async_context(sharing(self.open_db, state))

    def sweep(self, state: Path) -> None:
        """What a gateway does every few seconds, and at a notification."""
        home = self.shared[state]
        home._wait(home._sweep())


@pytest.fixture
async def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Homes]:
    monkeypatch.setattr(documents, "SWEEP_SECONDS", 3_600.0)
    async with AsyncExitStack() as stack:
        made = Homes(tmp_path)
        await made.start(stack)
        yield made


async def test_who_is_let_in_on_one_is_let_in_on_the_other(homes: Homes) -> None:
    one, other = (SenderPairing(state, "telegram", SystemClock()) for state in (homes.one, homes.other))
    asked = one.ask("alice", "default")
    assert asked is not None
    assert other.approve(asked.code).id == "alice"  # begins with what everybody has, without a notification
    bob = one.ask("bob", "default")
    assert bob is not None
    homes.sweep(homes.other)
    assert other.let_in() == ("alice",)
    assert [each.id for each in other.waiting()] == ["bob"]


async def test_changes_of_both_are_kept(homes: Homes) -> None:
    one, other = (ApprovalFile(state / "exec-approvals.json") for state in (homes.one, homes.other))
    one.allow("main", [{"id": "1", "pattern": "/bin/ls"}], 1)
    other.allow("main", [{"id": "2", "pattern": "/bin/cat"}], 2)
    one.allow("main", [{"id": "3", "pattern": "/bin/cp"}], 3)
    patterns = [each["pattern"] for each in one.shown()["agents"]["main"]["allowlist"]]
    assert patterns == ["/bin/ls", "/bin/cat", "/bin/cp"]
    homes.sweep(homes.other)
    assert not other.is_changed()
    assert other.shown() == one.shown()


async def test_the_audit_log_is_one_chain(homes: Homes) -> None:
    one, other = (AuditLog(state, SystemClock()) for state in (homes.one, homes.other))
    for number, audit in enumerate((one, other, one, one, other)):
        audit.append([AuditChange(plugin="p", hook="test", field="text", after=f"change {number}")])
    homes.sweep(homes.one)
    assert not one.verify().problems and not other.verify().problems
    assert [entry.seq for entry in one.entries()] == [entry.seq for entry in other.entries()] == [5, 4, 3, 2, 1]


async def test_what_a_command_changed_in_a_file_reaches_the_others(homes: Homes) -> None:
    (homes.one / "mcp-tools.json").write_text('{"version": 1, "servers": {}}')
    homes.sweep(homes.one)
    homes.sweep(homes.other)
    assert json.loads((homes.other / "mcp-tools.json").read_text()) == {"version": 1, "servers": {}}
    (homes.other / "mcp-tools.json").unlink()
    (homes.one / "mcp-tools.json").write_text('{"version": 1, "servers": {"a": {}}}')
    homes.sweep(homes.one)
    homes.sweep(homes.other)
    assert "a" in (homes.other / "mcp-tools.json").read_text()


async def test_a_change_that_fails_is_undone(homes: Homes) -> None:
    one, other = (SenderPairing(state, "telegram", SystemClock()) for state in (homes.one, homes.other))
    asked = one.ask("alice", "default")
    assert asked is not None
    with pytest.raises(StateError, match="no room"), shared(one._let_in.path):
        one._let_in.path.write_text('{"version": 1, "allowFrom": ["mallory"]}')
        raise StateError("no room")
    homes.sweep(homes.one)
    homes.sweep(homes.other)
    assert one.let_in() == other.let_in() == ()


async def test_what_a_gateway_had_before_it_joined_is_kept_aside(tmp_path: Path) -> None:
    opened = partial(Sqlite.open, tmp_path / "state.sqlite", STATE_MIGRATIONS)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "workspace-trust.json").write_text(f'{{"of": "{name}"}}')
        async with sharing(opened, tmp_path / name):
            pass
    assert (tmp_path / "other" / "workspace-trust.json").read_text() == '{"of": "one"}'
    assert (tmp_path / "other" / "workspace-trust.json.own").read_text() == '{"of": "other"}'
