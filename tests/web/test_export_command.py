"""`openclaw sessions export --html`: one page that needs nothing else and does nothing by itself."""

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from openclaw.cli.export import ExportHeader, render_html
from openclaw.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing_server import MockModelServer
from tests import commandline
from tests.web.support import SharedBrowser
from tests.web.test_hostile import CORPUS

TAGS = set(
    "html head meta title style body h1 h2 h3 dl dt dd article small p pre code details summary a em strong s ul ol li "
    "blockquote hr br table thead tbody tr th td img ins del".split()
)
ATTRIBUTES = {
    "html": {"lang"},
    "meta": {"charset", "http-equiv", "content", "name"},
    "article": {"class"},
    "details": {"class"},
    "a": {"rel", "title", "href"},
    "img": {"alt", "src"},
    "ol": {"start"},
}


class Reader(HTMLParser):
    """Notes every tag and attribute that a harmless page does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.strange: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            self.strange.append(tag)
        for name, value in attrs:
            if name not in ATTRIBUTES.get(tag, set()):
                self.strange.append(f"{tag} {name}={value}")
            if name in ("href", "src") and not re.match(
                r"https?://|data:image/(png|jpeg|gif|webp);base64,|[^:]*$", value or ""
            ):
                self.strange.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


def test_nothing_that_was_said_becomes_markup() -> None:
    hostile = "\n\n".join(CORPUS)
    call = ToolCall(
        id="c1", name=CORPUS[0], arguments={CORPUS[1]: hostile, "edits": [{"oldText": hostile, "newText": hostile}]}
    )
    messages: list[Message] = [
        User(content=(Text(hostile), Image(data='x"onerror="window.ran=1', mime_type="image/png"))),
        User(
            content=(
                Text("look"),
                Image(data="aGk=", mime_type="image/svg+xml"),
                Image(data="aGk=", mime_type="image/png"),
            )
        ),
        Assistant(
            content=(Thinking(hostile), Text(f"{hostile}\n\n&#x202e;&#27;[31m `&#x202e;`"), call), error_message=hostile
        ),
        ToolResult(tool_call_id="c1", tool_name="x", content=(Text(hostile),)),
        ToolResult(tool_call_id="lost", tool_name=hostile, content=(Text(hostile),), is_error=True),
    ]
    made = render_html(ExportHeader(title=hostile, facts=(("Conversation", hostile),)), messages)
    reader = read(made)
    assert reader.strange == []
    assert made.count("<style>") == 1 and "<script" not in made
    assert made.count("<img ") == 1 and 'src="data:image/png;base64,aGk="' in made
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08]", made)
    assert "⟨U+202E⟩gnp.exe" in made
    policy = re.search(r'content-security-policy" content="([^"]+)"', made)
    assert policy and policy[1].startswith("default-src 'none'; img-src data:; style-src 'sha256-")


def test_a_conversation_is_there_with_its_tools_and_its_thinking() -> None:
    call = ToolCall(
        id="c1", name="edit", arguments={"path": "a.txt", "edits": [{"oldText": "milk", "newText": "bread"}]}
    )
    messages: list[Message] = [
        User(content="change <it>", timestamp=1_700_000_000_000),
        Assistant(content=(Thinking("hm"), Text("On it, **now**.\n\n| a |\n|--:|\n| 1 |"), call)),
        ToolResult(tool_call_id="c1", tool_name="edit", content=(Text("changed"),)),
        Assistant(content=(Text("See [the page](https://ok.test/x)."),)),
    ]
    made = render_html(ExportHeader(title="Shopping"), messages)
    assert "2023-11-14 22:13 UTC" in made and "<p>change &lt;it&gt;</p>" in made
    assert "<strong>now</strong>" in made and "<td>1</td>" in made
    assert "<summary>Thinking</summary><pre>hm</pre>" in made
    assert "<del>milk</del><ins>bread</ins>" in made and "<pre>changed</pre>" in made
    assert made.count("<article") == 3, "a result stands with its call"
    assert 'rel="noopener noreferrer nofollow" title="https://ok.test/x" href="https://ok.test/x"' in made


def openclaw(home: TemporaryHome, *words: str) -> "subprocess.CompletedProcess[str]":
    return commandline.openclaw(*words, env=home.environ)


def export(home: TemporaryHome, file: Path) -> str:
    (home.workspace / "page.html").write_text("\n".join(CORPUS))
    with MockModelServer([calls("read", path="page.html"), says("\n\n".join(CORPUS))]) as server:
        home.configure(server.settings())
        assert openclaw(home, "agent", "--local", "--message", "\n".join(CORPUS)).returncode == 0
    done = openclaw(home, "sessions", "export", "main", "--html", "-o", str(file))
    assert (done.returncode, done.stdout) == (0, f"{file}\n"), done.stderr
    return file.read_text()


def test_the_command_writes_the_page_once(openclaw_home: TemporaryHome) -> None:
    file = openclaw_home.root / "talk.html"
    made = export(openclaw_home, file)
    assert read(made).strange == []
    assert "<dd>agent:main:main</dd>" in made and "<dd>mock/mock</dd>" in made
    again = openclaw(openclaw_home, "sessions", "export", "main", "--html", "-o", str(file))
    assert again.returncode == 1 and "is already there" in again.stderr


@pytest.mark.system
def test_a_browser_runs_nothing_of_it_and_asks_nobody(openclaw_home: TemporaryHome, browser: SharedBrowser) -> None:
    file = openclaw_home.root / "talk.html"
    export(openclaw_home, file)
    asked: list[str] = []
    complaints: list[str] = []
    reader = browser.new_context().new_page()
    reader.on("request", lambda request: asked.append(request.url))
    reader.on("console", lambda message: complaints.append(message.text))
    reader.goto(file.as_uri())
    for summary in reader.locator("summary").all():
        summary.click()
    assert reader.locator("article").count() == 3
    assert reader.evaluate("window.ran") is None
    assert reader.evaluate("getComputedStyle(document.body).maxWidth") == "736px", "its own style is let in"
    assert asked == [file.as_uri()]
    assert complaints == []
    reader.context.close()
