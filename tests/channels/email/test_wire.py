"""Mails in and out as plain values: whose From is believed, what a program wrote, text, threads, attachments."""

import contextlib
from email import message_from_bytes
from email.policy import default
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.email import imap, wire
from openclaw.channels.email.settings import EmailSettings, parse_server
from openclaw.core.channel import Address, Outbound
from openclaw.core.errors import ConfigError, InvalidRequest
from tests.channels.email.server import AUTHSERV, mail

ADDRESSES = [
    "ada@ada.test",
    "Ada <ada@ada.test>",
    '"Lovelace, Ada" <ADA@ada.test>',
    "=?utf-8?q?Ad=C3=A1?= <ada@ada.test>",
]


def decode(raw: bytes) -> wire.Mail:
    return wire.decode_mail(raw, "<fallback@claw.test>")


@pytest.mark.parametrize("header", ADDRESSES)
def test_an_address_is_found_whatever_the_name(header: str) -> None:
    assert wire.parse_address(header)[1] == "ada@ada.test"


@pytest.mark.parametrize(
    "header",
    [
        "ada@ada.test, eve@eve.test",
        "<ada@ada.test> <eve@eve.test>",
        "ada@ada.test <eve@eve.test>",
        "ada@ada.test)eve@eve.test",
        "ada@ada.test (eve@eve.test)",
        "undisclosed:;",
        "",
        "ada@ada..test",
        "=?utf-8?q?=3Cada=40ada.test=3E?=",
        "ada@ada.test\0<eve@eve.test>",
    ],
)
def test_a_from_that_two_readers_could_read_differently_is_refused(header: str) -> None:
    with pytest.raises(InvalidRequest):
        wire.parse_address(header)


def test_two_headers_from_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="2 headers From"):
        decode(b"From: ada@ada.test\r\nFrom: eve@eve.test\r\n\r\nhi")


@pytest.mark.parametrize(
    ("results", "verified"),
    [
        ([f"{AUTHSERV}; dmarc=pass header.from=ada.test"], True),
        ([f"{AUTHSERV}; dkim=pass header.d=ada.test header.s=x"], True),
        ([f"{AUTHSERV} 1; dkim=pass (2048-bit; key) header.i=@ada.test"], True),
        (["mx2.pool.test; dmarc=pass header.from=ada.test"], True),
        ([], False),
        (["mx.evil.test; dmarc=pass header.from=ada.test"], False),
        ([f"{AUTHSERV}.evil.test; dmarc=pass header.from=ada.test"], False),
        ([f"{AUTHSERV}; dmarc=fail header.from=ada.test; dkim=pass header.d=ada.test"], False),
        ([f"{AUTHSERV}; dmarc=pass header.from=eve.test"], False),
        ([f"{AUTHSERV}; dkim=pass header.d=eve.test"], False),
        ([f"{AUTHSERV}; dkim=pass header.d=mail.ada.test"], False),
        ([f"{AUTHSERV}; dkim=pass header.d=test"], False),
        ([f"{AUTHSERV}; spf=pass smtp.mailfrom=ada.test"], False),
        ([f"{AUTHSERV}; none (dmarc=pass header.from=ada.test)"], False),
        # What the sender wrote stands below the word of our server.
        ([f"{AUTHSERV}; dmarc=fail header.from=ada.test", f"{AUTHSERV}; dmarc=pass header.from=ada.test"], False),
        ([f"{AUTHSERV}; none", f"{AUTHSERV}; dmarc=pass header.from=ada.test"], False),
    ],
)
def test_only_the_word_of_our_own_server_makes_a_sender_verified(results: list[str], verified: bool) -> None:
    heads = "".join(f"Authentication-Results: {each}\r\n" for each in results)
    found = decode(f"{heads}From: ada@ada.test\r\n\r\nhi".encode())
    assert wire.is_verified(found, (AUTHSERV, "*.pool.test")) is verified


def test_an_unverified_sender_is_nobody_who_is_known() -> None:
    event = wire.to_inbound(decode(mail("hi", verified=False)), "default", verified=False)
    assert event.sender == "unverified:ada@ada.test" and event.origin.to == "ada@ada.test"


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto-Submitted": "auto-replied"},
        {"Auto-Submitted": "auto-generated; owner=x"},
        {"Precedence": "bulk"},
        {"Precedence": "list"},
        {"List-Id": "<club.ada.test>"},
        {"List-Unsubscribe": "<mailto:x@ada.test>"},
        {"Return-Path": "<>"},
        {"X-Auto-Response-Suppress": "All"},
        {"From": "MAILER-DAEMON@ada.test"},
        {"From": "no-reply@ada.test"},
        {"From": "noreply@ada.test"},
        {"From": "donotreply@ada.test"},
        {"Content-Type": 'multipart/report; report-type=delivery-status; boundary="x"'},
    ],
)
def test_what_a_program_wrote_is_known(headers: dict[str, str]) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"From": "ada@ada.test", **headers}.items())
    assert decode(f"{lines}\r\nhi".encode()).automatic


def test_a_person_is_no_program() -> None:
    assert not decode(mail("hi", Auto_Submitted="no", Return_Path="<ada@ada.test>")).automatic


def test_html_becomes_text_and_what_is_hidden_stays_out() -> None:
    page = "<p>Hello <b>there</b></p><div style='display:none'>obey</div><script>x</script><a href='https://a.test'>link</a>"
    raw = f"From: ada@ada.test\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{page}"
    found = decode(raw.encode())
    assert "Hello **there**" in found.text and "https://a.test" in found.text and "obey" not in found.text


def test_text_is_preferred_to_html_and_attachments_are_named_as_the_server_names_them() -> None:
    raw = mail("words", files=[("räch.pdf", "application/pdf", b"%PDF-1"), ("a.png", "image/png", b"\x89PNG")])
    found = decode(raw)
    assert found.text == "words"
    assert [(each.name, each.kind, each.ref) for each in found.files] == [
        ("räch.pdf", "document", "2/base64"),
        ("a.png", "image", "3/base64"),
    ]


def test_a_thread_is_its_first_mail_and_our_own_words_are_not_repeated() -> None:
    ours = "<openclaw.k@claw.test>"
    quoted = "Yes please.\n\nOn Monday, Claw <claw@claw.test> wrote:\n> Shall I?\n>\n> Really?\n"
    answer = decode(mail(quoted, In_Reply_To=ours, References=f"<first@ada.test> {ours}"))
    event = wire.to_inbound(answer, "default", verified=True)
    assert (event.thread, event.text) == ("<first@ada.test>", "Yes please.")
    assert event.quote is not None and event.quote.ours
    other = wire.to_inbound(decode(mail(quoted, In_Reply_To="<x@y>")), "default", verified=True)
    assert "Shall I?" in other.text and other.text.startswith("Subject: Hello")


def test_a_command_stands_alone_and_a_signature_is_no_part_of_it() -> None:
    event = wire.to_inbound(decode(mail("/status\n\n-- \nAda Lovelace\n")), "default", verified=True)
    assert event.text.strip() == "/status"


def test_an_answer_is_in_the_thread_and_says_that_a_program_wrote_it() -> None:
    to = Address(channel="email", to="ada@ada.test", thread="<first@ada.test>")
    message = Outbound(to=to, text="**Yes**\n\n| a |\n|-|\n| 1 |", reply_to="<last@ada.test>", key="k1")
    note = wire.MailNote("AW: Re: Lunch\nBcc: eve@eve.test", "<first@ada.test> <second@ada.test>")
    made = wire.encode_mail(message, [("x.txt", "text/plain", b"x")], sender="claw@claw.test", note=note, now=0.0)
    found: Any = message_from_bytes(made.as_bytes(), policy=default)
    assert found["Subject"] == "Re: Lunch Bcc: eve@eve.test" and found["Bcc"] is None
    assert found["In-Reply-To"] == "<last@ada.test>"
    assert found["References"] == "<first@ada.test> <second@ada.test> <last@ada.test>"
    assert (found["Message-ID"], found["Auto-Submitted"]) == ("<openclaw.k1@claw.test>", "auto-replied")
    assert "<strong>Yes</strong>" in found.get_body(("html",)).get_content()
    assert [each.get_filename() for each in found.iter_attachments()] == ["x.txt"]


def test_a_mail_of_our_own_begins_with_its_first_words() -> None:
    to = Address(channel="email", to="ada@ada.test")
    made = wire.encode_mail(Outbound(to=to, text="# Good *news*\nmore"), [], sender="c@d.test", note=None, now=0.0)
    assert (made["Subject"], made["Auto-Submitted"], made["In-Reply-To"]) == ("Good news", "auto-generated", None)


@pytest.mark.parametrize("coding", ["base64", "quoted-printable", "plain"])
@given(st.binary(max_size=300), st.integers(1, 50))
def test_an_attachment_is_the_same_however_it_is_cut(coding: str, content: bytes, size: int) -> None:
    import base64
    import quopri

    encoded = {"base64": base64.encodebytes, "quoted-printable": quopri.encodestring}.get(coding, bytes)(content)
    reader, found = wire.PartReader(coding), b""
    for start in range(0, len(encoded), size):
        found += reader.feed(encoded[start : start + size])
    assert found + reader.feed(b"", last=True) == content


@given(
    st.binary(max_size=2_000)
    | st.builds(
        lambda head, body: b"From: a@b.test\r\n" + head + b"\r\n\r\n" + body,
        st.binary(max_size=300),
        st.binary(max_size=500),
    )
)
def test_a_mail_is_a_mail_or_refused(raw: bytes) -> None:
    try:
        found = decode(raw)
    except InvalidRequest:
        return
    wire.to_inbound(found, "default", verified=wire.is_verified(found, ("*.b.test",)))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["From", "Subject", "Content-Type", "Content-Transfer-Encoding", "Date", "References"]),
            st.text(max_size=60).map(lambda text: " ".join(text.split())),
        ),
        max_size=8,
    )
)
def test_odd_headers_break_nothing(headers: list[tuple[str, str]]) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in [("From", "a@b.test"), *headers])
    with contextlib.suppress(InvalidRequest):
        decode(f"{lines}\r\nbody".encode(errors="replace"))


@given(st.text(), st.text(max_size=50))
def test_any_text_can_be_sent(text: str, subject: str) -> None:
    to = Address(channel="email", to="ada@ada.test")
    wire.encode_mail(Outbound(to=to, text=text), [], sender="c@d.test", note=wire.MailNote(subject), now=0.0).as_bytes()


@given(st.text())
def test_a_quoted_string_ends_no_line(text: str) -> None:
    assert not set(imap.quote(text)) & set("\r\n\0")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mail.a.test", ("mail.a.test", 993, True)),
        ("mail.a.test:143", ("mail.a.test", 143, False)),
        ("imap://mail.a.test", ("mail.a.test", 143, False)),
        ("imaps://mail.a.test:9993/", ("mail.a.test", 9993, True)),
    ],
)
def test_servers_are_read(text: str, found: tuple[str, int, bool]) -> None:
    server = parse_server(text, "imap")
    assert (server.host, server.port, server.tls) == found


@pytest.mark.parametrize("text", ["smtp://a.test", "http://a.test", "a b", "", "a.test:x"])
def test_what_is_no_server_says_what_is(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_server(text, "imap")


def test_large_providers_are_known() -> None:
    gmail = EmailSettings(address="claw@gmail.com")
    assert gmail.reads_from.host == "imap.gmail.com" and gmail.authserv_ids == ("mx.google.com",)
    own = EmailSettings(address="claw@a.test")
    assert (own.reads_from.host, own.sends_with.host, own.authserv_ids) == ("imap.a.test", "smtp.a.test", ())


@pytest.mark.parametrize(
    ("words", "seconds"),
    [("Greylisted, try again in 300 seconds", 300.0), ("in 5 minutes", 300.0), ("4.7.1 later", None)],
)
def test_a_server_that_says_how_long_is_believed(words: str, seconds: float | None) -> None:
    assert wire.retry_after(words) == seconds
