"""The profile file: private, whole, and nothing in it is lost."""

import json
import os
import stat
import sys
import threading

import pytest

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.models.failover import CredentialStats, record_failure, record_success
from openclaw.models.profiles import ProfileStore
from openclaw.storage.locks import Holder, KernelLock

NOW = 1_800_000_000_000
FILE = {
    "version": 1,
    "profiles": {
        "anthropic:default": {"type": "api_key", "provider": "Anthropic", "key": "sk-1", "note": "mine"},
        "openai:me@example.com": {
            "type": "oauth", "provider": "openai", "access": "acc", "refresh": "ref", "expires": NOW,
            "email": "me@example.com",
        },
        "zai:t": {"type": "token", "provider": "zai", "tokenRef": {"source": "env", "id": "ZAI"}},
    },
    "order": {"anthropic": ["anthropic:default"]},
    "lastGood": {"openai": "openai:me@example.com"},
    "usageStats": {"anthropic:default": {"lastUsed": 5, "errorCount": 1, "future": [1]}},
    "later": {"kept": True},
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return ProfileStore.of_agent(tmp_path / "agents" / "main" / "agent")


def fill(store: ProfileStore, content: str | dict[str, object]) -> None:
    store.path.parent.mkdir(parents=True)
    store.path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_no_file_means_no_profiles(store):
    assert store.load().profiles == {}
    assert not store.path.parent.exists()


def test_every_kind_of_profile_is_read(store):
    fill(store, FILE)
    loaded = store.load()
    default = loaded.profiles["anthropic:default"]
    assert (default.provider, default.secret) == ("anthropic", Secret("sk-1"))
    mail = loaded.profiles["openai:me@example.com"]
    assert (mail.type, mail.secret, mail.expires) == ("oauth", Secret("acc"), NOW)
    token = loaded.profiles["zai:t"]
    assert token.secret is None
    assert token.ref is not None
    assert token.ref.id == "ZAI"
    assert loaded.order == {"anthropic": ("anthropic:default",)}
    assert loaded.stats["anthropic:default"] == CredentialStats(last_used=5, error_count=1)
    assert "sk-1" not in repr(loaded)


def test_an_update_changes_its_profile_and_keeps_everything_else(store):
    fill(store, FILE)
    store.update("anthropic:default", lambda stats: record_failure(stats, "rate_limit", "m", NOW))
    written = json.loads(store.path.read_text())
    assert written["usageStats"]["anthropic:default"] == {
        "lastUsed": 5, "errorCount": 2, "future": [1], "failureCounts": {"rate_limit": 1}, "lastFailureAt": NOW,
        "cooldownUntil": NOW + 30_000, "cooldownReason": "rate_limit", "cooldownModel": "m",
    }  # fmt: skip
    del written["usageStats"]
    assert written == {name: value for name, value in FILE.items() if name != "usageStats"}


def test_success_is_remembered_and_takes_old_trouble_away(store):
    fill(store, FILE)
    store.update("anthropic:default", lambda stats: record_failure(stats, "timeout", "m", NOW))
    store.update("anthropic:default", lambda stats: record_success(stats, NOW + 1), good_for="anthropic")
    written = json.loads(store.path.read_text())
    assert written["lastGood"]["anthropic"] == "anthropic:default"
    assert written["usageStats"]["anthropic:default"] == {"future": [1], "lastUsed": NOW + 1, "lastFailureAt": NOW}


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits")
def test_the_file_is_private_from_the_first_byte(store):
    store.put("openai:default", "openai", Secret("sk-2"))
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    store.path.chmod(0o644)
    store.update("openai:default", lambda stats: stats)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert store.load().profiles["openai:default"].secret == Secret("sk-2")
    assert [path.name for path in store.path.parent.iterdir()] == ["auth-profiles.json"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"profiles": 3}', '{"profiles": {"a": {"type": "magic", "provider": "x"}}}', "\xff"]
)
def test_a_broken_file_is_left_alone_and_named(store, text):
    fill(store, text)
    before = store.path.read_bytes()
    with pytest.raises(StateError, match=r"auth-profiles\.json cannot be used"):
        store.load()
    with pytest.raises(StateError):
        store.update("a", lambda stats: stats)
    with pytest.raises(StateError):
        store.put("a", "x", Secret("k"))
    assert store.path.read_bytes() == before


def test_a_message_about_a_broken_file_shows_no_secret(store):
    fill(store, '{"profiles": {"a": {"provider": "x", "key": "sk-secret-1", "expires": "sk-secret-2"}}}')
    with pytest.raises(StateError) as error:
        store.load()
    assert "sk-secret" not in str(error.value)


def test_a_change_that_fails_writes_nothing(store):
    fill(store, FILE)
    before = store.path.read_bytes()

    def explode(stats):
        raise KeyError("no")

    with pytest.raises(KeyError):
        store.update("anthropic:default", explode)
    assert store.path.read_bytes() == before
    store.update("anthropic:default", lambda stats: stats)  # and the lock is free again


def test_many_writers_lose_nothing(store):
    store.put("a", "openai", Secret("k"))

    def work():
        for _ in range(5):
            store.update("a", lambda stats: CredentialStats(error_count=stats.error_count + 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.load().stats["a"].error_count == 20


def test_a_file_someone_else_is_writing_is_waited_for(store):
    store.put("a", "openai", Secret("k"))
    lock = KernelLock(store.path.with_name("auth-profiles.json.lock"))
    assert lock.take(Holder(pid=os.getpid(), created_at=0))
    done = threading.Event()

    def work():
        store.update("a", lambda stats: CredentialStats(error_count=7))
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not done.wait(0.1)
    lock.release()
    assert done.wait(5)
    thread.join()
    assert store.load().stats["a"].error_count == 7
