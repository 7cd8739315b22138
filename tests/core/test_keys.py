"""Session keys: what a client may write, and what is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import MAX_KEY_CHARS, ChatRoute, SessionKey, normalise_agent, parse_session_key

FORMS = [
    # whole keys
    ("agent:main:main", "agent:main:main"),
    ("agent:Ops:Main", "agent:ops:main"),
    ("  agent:main:main  ", "agent:main:main"),
    ("agent:main:direct:Alice", "agent:main:direct:alice"),
    ("agent:main:telegram:direct:123", "agent:main:telegram:direct:123"),
    ("agent:main:telegram:Work:direct:Bob", "agent:main:telegram:work:direct:bob"),
    ("agent:main:telegram:group:-100:topic:7", "agent:main:telegram:group:-100:topic:7"),
    ("agent:main:discord:slash:U1", "agent:main:discord:slash:u1"),
    ("agent:main:agent:ops:x", "agent:main:agent:ops:x"),
    # bare forms
    ("main", "agent:main:main"),
    ("MAIN", "agent:main:main"),
    ("cron:Job1:run:R", "agent:main:cron:job1:run:r"),
    ("subagent:ABC", "agent:main:subagent:abc"),
    ("hook:Name", "agent:main:hook:name"),
    ("global", "global"),
    ("Unknown", "unknown"),
    # a platform's own ids keep their case
    ("signal:group:AbC+/=", "agent:main:signal:group:AbC+/="),
    ("SIGNAL:Group:AbC=:Topic:Xy", "agent:main:signal:group:AbC=:topic:xy"),
    ("signal:direct:AbC", "agent:main:signal:direct:abc"),
    ("matrix:channel:!Room:Server.Org", "agent:main:matrix:channel:!Room:Server.Org"),
    ("Matrix:GROUP:!Room:S:dm:X", "agent:main:matrix:group:!Room:S:dm:X"),
    ("matrix:direct:@Bob:Server", "agent:main:matrix:direct:@bob:server"),
    ("unsignal:group:ABC", "agent:main:unsignal:group:abc"),
    # threads
    ("slack:channel:C1:thread:171.Ab", "agent:main:slack:channel:c1:thread:171.Ab"),
    ("slack:channel:C1:THREAD:Ab", "agent:main:slack:channel:c1:thread:Ab"),
    ("matrix:channel:!R:S:thread:$Ev", "agent:main:matrix:channel:!R:S:thread:$Ev"),
    ("X:thread:A:thread:B", "agent:main:x:thread:a:thread:B"),
    ("slack:channel:C1:thread:a:dm:B", "agent:main:slack:channel:c1:thread:a:dm:B"),
    # dm is an old name of direct, where the kind of chat stands and nowhere else
    ("dm:Bob", "agent:main:direct:bob"),
    ("telegram:DM:Bob", "agent:main:telegram:direct:bob"),
    ("telegram:acc:dm:bob", "agent:main:telegram:acc:direct:bob"),
    ("dm:dm:x", "agent:main:direct:dm:x"),
    ("telegram:direct:dm:x", "agent:main:telegram:direct:dm:x"),
    ("telegram:group:dm:topic:5", "agent:main:telegram:group:dm:topic:5"),
    ("cron:dm:run:1", "agent:main:cron:dm:run:1"),
    ("explicit:dm:x", "agent:main:explicit:dm:x"),
    ("telegram:dm", "agent:main:telegram:dm"),
]


@pytest.mark.parametrize(("text", "stored"), FORMS)
def test_a_key_is_stored_in_one_form(text: str, stored: str) -> None:
    assert str(parse_session_key(text)) == stored
    assert str(parse_session_key(stored)) == stored


def test_bare_forms_belong_to_the_default_agent_and_its_main_key() -> None:
    assert parse_session_key("main", "ops", "Home") == SessionKey("ops", "home")
    assert parse_session_key("HOME", "ops", "Home") == SessionKey("ops", "home")
    assert parse_session_key("telegram:direct:1", "ops") == SessionKey("ops", "telegram:direct:1")
    assert parse_session_key("agent:main:main", "ops", "home") == SessionKey("main", "main")
    assert parse_session_key("global", "ops") == SessionKey("ops", "global")


HOSTILE = [
    "",
    "   ",
    "agent:",
    "agent::x",
    "agent:main",
    "agent:main:",
    "agent:../../etc:main",
    "agent:a b:main",
    "agent:-x:main",
    f"agent:{'a' * 65}:main",
    "a\x00b",
    "a\nb",
    "a\x1b[31mb",
    "a\x9bb",
    "a\u202eb",
    "a\u2028b",
    "a\udcffb",
    "x" * (MAX_KEY_CHARS + 1),
    "x" * MAX_KEY_CHARS,  # would be longer with its agent
    "İ" * 300,  # grows when lower-cased
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_key_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"agent:main:main|agent id|write agent:"):
        parse_session_key(text)


@pytest.mark.parametrize("agent", ["", "ä", "a/b", "a.b", "a\n", "_x"])
def test_an_agent_id_is_letters_digits_dashes(agent: str) -> None:
    if agent == "a\n":
        assert normalise_agent(agent) == "a"
        return
    with pytest.raises(InvalidRequest, match="letters, digits"):
        normalise_agent(agent)


words = st.sampled_from(
    "agent main dm DM direct group channel room slash signal matrix Signal MATRIX cron run thread THREAD topic "
    "telegram subagent acp explicit global unknown İ Σ ſ K 'A b' AbC".split(" ")
)
texts = st.one_of(
    st.lists(words | st.text(max_size=4), min_size=1, max_size=8).map(":".join),
    st.text(min_size=1, max_size=40),
)


@given(texts)
def test_what_is_formatted_parses_to_the_same_key(text: str) -> None:
    try:
        key = parse_session_key(text, "ops", "home")
    except InvalidRequest:
        return
    assert parse_session_key(str(key), key.agent, "home") == key
    assert len(str(key)) <= MAX_KEY_CHARS
    assert str(key).isprintable() or not text.isprintable()


@given(texts)
def test_relations_hold_for_any_key(text: str) -> None:
    try:
        key = parse_session_key(text)
    except InvalidRequest:
        return
    assert (key.thread is None) == (key.parent == key)
    if key.thread is not None:
        assert str(key) == f"{key.parent}:thread:{key.thread}"
    if key.is_group:
        assert not (key.is_cron or key.is_subagent or key.is_acp or key.is_hook)


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("main", {"is_main"}),
        ("cron:j", {"is_cron"}),
        ("cron:j:run:1", {"is_cron", "is_cron_run"}),
        ("cron:run:x", {"is_cron"}),
        ("cron:j:run:", {"is_cron"}),
        ("cron:group:run:1", {"is_cron", "is_cron_run"}),
        ("subagent:u", {"is_subagent"}),
        ("acp:x", {"is_acp"}),
        ("hook:x", {"is_hook"}),
        ("telegram:group:1", {"is_group"}),
        ("discord:channel:1", {"is_group"}),
        ("matrix:room:1", {"is_group"}),
        ("telegram:direct:group", set()),
        ("telegram:direct:group:x", set()),
        ("discord:slash:room:1", set()),
        ("mycron:x", set()),
    ],
)
def test_predicates(text: str, true: set[str]) -> None:
    key = parse_session_key(text)
    names = {"is_main", "is_cron", "is_cron_run", "is_subagent", "is_acp", "is_hook", "is_group"}
    assert {name for name in names if getattr(key, name)} == true


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("telegram:direct:5", ChatRoute("telegram", "direct", "5")),
        ("telegram:work:direct:5", ChatRoute("telegram", "direct", "5", account="work")),
        ("telegram:group:-1:topic:7", ChatRoute("telegram", "group", "-1:topic:7")),
        ("slack:channel:c:thread:1.2", ChatRoute("slack", "channel", "c", thread="1.2")),
        ("matrix:channel:!R:S", ChatRoute("matrix", "channel", "!R:S")),
        ("direct:alice", None),
        ("main", None),
        ("cron:direct:x", None),
        ("discord:slash:u", None),
    ],
)
def test_a_chat_key_says_where_to_deliver(text: str, route: ChatRoute | None) -> None:
    assert parse_session_key(text).route == route


def test_a_thread_is_split_at_the_last_mark() -> None:
    key = parse_session_key("slack:channel:c:thread:a:thread:b")
    assert key.thread == "b"
    assert str(key.parent) == "agent:main:slack:channel:c:thread:a"
    assert parse_session_key("thread:x").thread is None
    assert parse_session_key("x:thread:").thread is None
