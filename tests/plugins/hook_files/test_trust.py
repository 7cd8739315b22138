"""A handler is code: it runs as it was when its owner said yes, or not at all."""

from pathlib import Path

import pytest

from openclaw.core.errors import StateError
from openclaw.plugins.hooks.find import ACCEPTED, AcceptedHooks
from openclaw.plugins.hooks.manifest import HookDirectory
from tests.plugins.hook_files.support import look, put


def one(tmp_path: Path) -> HookDirectory:
    put(tmp_path / "hooks", "h")
    (hook,) = look((tmp_path / "hooks", "openclaw-workspace")).hooks
    return hook


def test_nobody_vouches_for_what_was_never_accepted(tmp_path: Path) -> None:
    assert "nobody has accepted it yet" in AcceptedHooks(tmp_path).objection(one(tmp_path))


def test_what_was_accepted_runs_also_for_the_next_process(tmp_path: Path) -> None:
    hook = one(tmp_path)
    AcceptedHooks(tmp_path).accept(hook, "owner", 1)
    assert AcceptedHooks(tmp_path).objection(hook) == ""


@pytest.mark.parametrize("change", ["edit", "add", "remove", "mode"])
def test_one_changed_byte_holds_it_back_until_it_is_accepted_again(tmp_path: Path, change: str) -> None:
    hook = one(tmp_path)
    other = Path(hook.directory) / "helper.py"
    other.write_text("x = 1\n")
    ledger = AcceptedHooks(tmp_path)
    ledger.accept(hook, "owner", 1)
    assert ledger.objection(hook) == ""
    handler = Path(hook.handler)
    match change:
        case "edit":
            handler.write_text(handler.read_text() + "#")
        case "add":
            (handler.parent / "json.py").write_text("import os")
        case "remove":
            other.unlink()
        case "mode":
            handler.chmod(0o755)
    assert "changed since it was accepted" in ledger.objection(hook)
    ledger.accept(hook, "owner", 2)
    assert ledger.objection(hook) == ""


def test_links_and_files_that_anyone_can_write_are_refused(tmp_path: Path) -> None:
    hook = one(tmp_path)
    ledger = AcceptedHooks(tmp_path)
    extra = Path(hook.directory) / "data"
    extra.symlink_to("/etc/passwd")
    with pytest.raises(StateError, match="is a link"):
        ledger.accept(hook, "owner", 1)
    extra.unlink()
    ledger.accept(hook, "owner", 1)
    Path(hook.handler).chmod(0o666)
    assert "everyone on this machine can write" in ledger.objection(hook)


def test_a_damaged_list_means_that_nothing_is_accepted(tmp_path: Path) -> None:
    hook = one(tmp_path)
    AcceptedHooks(tmp_path).accept(hook, "owner", 1)
    (tmp_path / ACCEPTED).write_text("{")
    assert "cannot be read" in AcceptedHooks(tmp_path).objection(hook)
    with pytest.raises(StateError, match="cannot be read"):
        AcceptedHooks(tmp_path).accept(hook, "owner", 2)
