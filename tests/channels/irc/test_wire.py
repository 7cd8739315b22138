"""Lines of IRC as plain values."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.irc import wire
from openclaw.channels.irc.settings import IrcSettings
from openclaw.core.channel import AccountClosed, Inbound, MessageRefused, TryLater
from openclaw.core.errors import ConfigError, InvalidRequest
from openclaw.core.secret import Secret


def hear(text: str, me: str = "claw") -> Inbound | None:
    return wire.decode_message(wire.decode(text.encode()), me, "n1", "default", 5)


def test_a_line_with_everything() -> None:
    line = wire.decode(b"@account=ada;x=a\\:b\\sc :ada!~a@h.test PRIVMSG #club :hi :there\r\n")
    assert (line.command, line.params, line.nick) == ("PRIVMSG", ("#club", "hi :there"), "ada")
    assert dict(line.tags) == {"account": "ada", "x": "a;b c"}


def test_a_sender_is_the_account_or_the_whole_mask() -> None:
    known = hear("@account=Ada :nick!~a@h.test PRIVMSG claw :hi")
    unknown = hear(":Ada!~a@H.test PRIVMSG claw :hi")
    assert known is not None and known.sender == "Ada" and known.origin.to == "nick"
    assert unknown is not None and unknown.sender == "ada!~a@h.test" and unknown.group is None


def test_a_channel_is_a_group_and_our_name_a_mention() -> None:
    found = hear(":ada!~a@h PRIVMSG #Club :claw: what is \x02this\x02 \x0304,05red\x03?")
    assert found is not None and (found.group, found.mentioned, found.text) == ("#club", True, "what is this red?")
    other = hear(":ada!~a@h PRIVMSG #club :clawless")
    assert other is not None and not other.mentioned
    action = hear(":ada!~a@h PRIVMSG #club :\x01ACTION waves at claw\x01")
    assert action is not None and action.text == "* ada waves at claw" and action.mentioned


@pytest.mark.parametrize(
    "line",
    [
        ":ada!~a@h NOTICE claw :I am away",
        ":ada!~a@h PRIVMSG claw :\x01VERSION\x01",
        ":Claw!~c@h PRIVMSG #club :our own",
        ":irc.test PRIVMSG claw :a server",
        ":ada!~a@h PRIVMSG claw",
    ],
)
def test_programs_and_our_own_words_are_not_heard(line: str) -> None:
    assert hear(line) is None


@given(st.binary(max_size=600))
def test_a_line_is_a_line_or_refused(raw: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        wire.decode_message(wire.decode(raw), "claw", "n", "default", 0)


@given(st.text(st.characters(exclude_characters="\0\ufffd", exclude_categories=["Cs"])), st.integers(64, 480))
def test_no_line_is_too_long_ends_early_or_splits_a_character(text: str, room: int) -> None:
    lines = wire.encode_text(text, room)
    assert all(0 < len(line.encode()) <= room and not set(line) & set("\r\n\0\x01\ufffd") for line in lines)


def test_a_text_is_cut_between_words_by_bytes() -> None:
    text = "wörd " * 300
    lines = wire.encode_text(text, 100)
    assert " ".join(lines).split() == text.split() and max(len(line.encode()) for line in lines) <= 100


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("**b** *i* `c`", "\x02b\x02 \x1di\x1d \x11c\x11"),
        ("**two\nlines**", "\x02two\x02\n\x02lines\x02"),
        ("[x](https://a.test)", "x (https://a.test)"),
    ],
)
def test_markdown_becomes_ircs_marks(markdown: str, written: str) -> None:
    assert "\n".join(wire.encode_text(markdown, 400)) == written


@pytest.mark.parametrize("target", ["", "a b", "a,b", ":x", "a\r\nQUIT"])
def test_what_is_no_target_is_refused(target: str) -> None:
    with pytest.raises(MessageRefused):
        wire.check_target(target)
    assert wire.check_target("ada!~a@h") == "ada" and wire.check_target("#club") == "#club"


def test_what_a_server_complains_about() -> None:
    wait = wire.failure(wire.decode(b":s 439 claw ada :Target change too fast. Please wait 200 seconds."), "ada")
    assert isinstance(wait, TryLater) and wait.after == 200.0
    assert isinstance(wire.failure(wire.decode(b":s 401 claw Ada :No such nick"), "ada"), MessageRefused)
    assert wire.failure(wire.decode(b":s 403 claw #other :No such channel"), "ada") is None


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Closing Link: Access denied: Bad password?", AccountClosed),
        ("K-Lined: spam", AccountClosed),
        ("Ping timeout: 120 seconds", TryLater),
        ("Server shutting down", TryLater),
    ],
)
def test_a_ban_does_not_get_better_by_itself(words: str, kind: type[Exception]) -> None:
    assert type(wire.ended(wire.decode(f"ERROR :{words}".encode()), "irc.test")) is kind


def test_a_long_password_is_sent_in_pieces() -> None:
    lines = wire.sasl_lines("claw", "x" * 600)
    assert all(len(line.partition(" ")[2]) <= 400 for line in lines)
    assert wire.sasl_lines("aaaa", "x" * 290)[-1] == "AUTHENTICATE +"


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ("irc.libera.chat", ("irc.libera.chat", 6697, True)),
        ("irc.a.test:6667", ("irc.a.test", 6667, False)),
        ("irc://127.0.0.1:7000", ("127.0.0.1", 7000, False)),
        ("ircs://a.test:7000", ("a.test", 7000, True)),
    ],
)
def test_servers_are_read(server: str, found: tuple[str, int, bool]) -> None:
    place = IrcSettings(server=server, nick="claw").place
    assert (place.host, place.port, place.tls) == found


def test_a_password_is_not_sent_unencrypted() -> None:
    with pytest.raises(ConfigError, match="ircs://"):
        IrcSettings(server="irc://a.test", nick="claw", password=Secret("x")).credential("default", {})
    with pytest.raises(ConfigError, match="no nick"):
        IrcSettings(server="a.test", nick="9 lives").credential("default", {})
    assert IrcSettings(server="a.test", nick="claw").credential("default", {})
