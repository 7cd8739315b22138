"""The offline provider, for a machine without a model: a few rule-based abilities, and a hint how to add a model.

It runs in the same loop with the same tools as any model. It is stateless: it reads what it has done so far from
the conversation, so the same request always gives the same answer.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from openclaw.core.events import CallDelta, Done, ModelEvent, TextDelta
from openclaw.core.messages import Assistant, Message, Text, ToolCall, ToolResult, Usage, User
from openclaw.core.provider import Model, ModelRequest

SHOWN_CHARS = 6_000
SHOWN_NAMES = 60
LONGEST_MESSAGE = 4_000
LONGEST_CLAUSE = 400
MOST_NOTES = 2_000

HOW_TO_ADD_A_MODEL = """\
No model is configured, so I cannot answer that. Three ways to add one:

1. Use a provider (Anthropic, OpenAI, Gemini, OpenRouter, …): `openclaw onboard` asks for a key, tries it and keeps it.
2. Run a model on this machine: start Ollama, LM Studio, llama.cpp or vLLM on its usual port, then \
`openclaw gateway restart`.
3. Name any OpenAI-compatible server: `openclaw config set models.providers.mine '{baseUrl: "http://host:port/v1", \
api: "openai-completions", models: [{id: "model-name"}]}'`, \
then `openclaw config set agents.defaults.model mine/model-name`.

Until then I can list, find, show and summarise files, remember notes and find them again, tell the time, \
my status and the skills I see, and run a command you put in backticks."""


class OfflineContext(Struct, frozen=True, kw_only=True):
    """Directory, time, tools and session of a request."""

    here: str
    now_ms: int
    tools: frozenset[str]
    session: str = ""
    exchanges: int = 0

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000).astimezone()

    def place(self, name: str) -> str:
        if name.startswith(("/", "~")) or self.here == ".":
            return name
        return self.here if name in (".", "") else f"{self.here.rstrip('/')}/{name}"


# Abilities.


class ToolUse(Struct, frozen=True):
    """A tool call to make next."""

    tool: str
    arguments: dict[str, Any]


class Ability(Protocol):
    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        """The next tool call, or the answer once there is nothing left to do."""
        ...


def _answer(result: ToolResult, success: Callable[[str], str]) -> str:
    return f"That did not work: {result.text}" if result.is_error else success(result.text)


class ListFiles(Struct, frozen=True):
    path: str
    shown: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        if not results:
            return ToolUse("ls", {"path": self.path})
        return _answer(results[0], self._format)

    def _format(self, text: str) -> str:
        names = _names(text)
        if not names:
            return f"{self.shown} is empty."
        listed = "\n".join(f"- {name}" for name in names[:SHOWN_NAMES])
        unlisted = re.search(r"^\[(\d+) more entries", text, re.MULTILINE)
        left = len(names[SHOWN_NAMES:]) + (int(unlisted.group(1)) if unlisted else 0)
        more = f"\n… and {left} more" if left else ""
        return f"Files in {self.shown}:\n{listed}{more}"


def _names(listing: str) -> list[str]:
    """The names in an answer of `ls`: one JSON string a line, notes between them."""
    return [str(msgspec.json.decode(line)) for line in listing.splitlines() if line.startswith('"')]


class ShowFile(Struct, frozen=True):
    path: str
    shown: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        if not results:
            return ToolUse("read", {"path": self.path})
        return _answer(results[0], self._format)

    def _format(self, text: str) -> str:
        body = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS].rsplit("\n", 1)[0] + "\n…"
        return f"{self.shown}:\n{_block(body)}"


def _block(text: str) -> str:
    """`text` as a code block that its own backticks cannot close."""
    fence = "`" * max(3, 1 + _longest_ticks(text))
    return f"{fence}\n{text}\n{fence}"


def _inline(text: str) -> str:
    fence = "`" * (1 + _longest_ticks(text))
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}"


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


class Outline(Struct, frozen=True):
    """Summarises a file by its headings, each with the first sentence under it."""

    path: str
    shown: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        if not results:
            return ToolUse("read", {"path": self.path})
        return _answer(results[0], self._format)

    def _format(self, text: str) -> str:
        parts = outline(text)
        if not parts:
            lines = [line for line in text.splitlines() if line.strip()]
            start = "\n".join(lines[:5])
            return f"{self.shown} has no headings. It begins:\n{start}" if lines else f"{self.shown} is empty."
        lines = [f"{'  ' * (level - 1)}- {title}{': ' + first if first else ''}" for level, title, first in parts]
        return f"What {self.shown} says, by heading:\n" + "\n".join(lines)


def outline(text: str) -> list[tuple[int, str, str]]:
    """Each heading of a Markdown text: level, title, and the first sentence under it."""
    parts: list[tuple[int, str, list[str]]] = []
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and (heading := re.match(r"(#{1,6})\s+(.+?)\s*#*$", line)):
            parts.append((len(heading.group(1)), heading.group(2), []))
        elif not fenced and parts and line.strip() and not line.startswith(("|", "<", "[", "!", "---")):
            parts[-1][2].append(line.strip())
        elif not line.strip() and parts and parts[-1][2] and parts[-1][2][-1]:
            parts[-1][2].append("")
    top = min((level for level, _, _ in parts), default=1)
    return [(level - top + 1, title, _first_sentence(body)) for level, title, body in parts]


def _first_sentence(lines: list[str]) -> str:
    paragraph: list[str] = []
    for line in lines:
        if not line:
            break
        paragraph.append(line)
    text = re.sub(r"[*_`]{1,3}", "", " ".join(paragraph))
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    match = re.match(r"(.{20,}?[.!?])(\s|$)", text)
    sentence = match.group(1) if match else text
    return sentence if len(sentence) <= 200 else sentence[:199].rstrip() + "…"


class FindFiles(Struct, frozen=True):
    pattern: str
    path: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        if not results:
            return ToolUse("find", {"pattern": self.pattern, "path": self.path})
        return _answer(results[0], lambda text: f"Files that match {self.pattern}:\n{_cut(text)}")


class SearchText(Struct, frozen=True):
    text: str
    path: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        if not results:
            return ToolUse("grep", {"pattern": self.text, "path": self.path, "literal": True, "ignoreCase": True})
        return _answer(results[0], lambda text: f"Where “{self.text}” stands:\n{_cut(text)}")


class Remember(Struct, frozen=True):
    """Writes a note to a new file of today; existing files are never rewritten, so no note can be lost."""

    note: str
    day: str
    time: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        if not results:
            # From today's names on, because a long listing is cut.
            return ToolUse("ls", {"path": "memory", "after": self.day, "limit": MOST_NOTES})
        names = [] if results[0].is_error else _names(results[0].text)
        number = 1
        while (name := f"{self.day}.md" if number == 1 else f"{self.day}-{number}.md") in names:
            number += 1
        path = f"memory/{name}"
        if len(results) == 1:
            return ToolUse("write", {"path": path, "content": f"# {self.day}\n\n- {self.time} {self.note}\n"})
        return _answer(results[1], lambda text: f"Noted in {path}: {self.note}")


class Recall(Struct, frozen=True):
    """Searches the memory files for the words of the question."""

    topic: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        found_words = re.findall(r"[\w-]{3,}|[^\x00-\x7f\s]+", self.topic)
        words = [re.escape(word) for word in found_words if word.lower() not in _COMMON]
        if not words:
            return "What shall I look for? Ask for example: what did I say about the dentist?"
        if not results:
            return ToolUse("grep", {"pattern": "|".join(words), "path": "memory", "ignoreCase": True})
        found = results[0]
        if found.is_error or not re.search(r"^[^\n:]+:\d+: ", found.text, re.MULTILINE):
            return f"I have no note about {self.topic}."
        notes = re.findall(r"^[^\n:]*?([^/\n:]+):\d+: (?:- )?(.+)$", found.text, re.MULTILINE)
        best = sorted(notes, key=lambda note: -_hits(note[1], words))
        top = _hits(best[0][1], words)
        lines = "\n".join(f"- {line} ({name})" for name, line in best[:10] if _hits(line, words) == top)
        return f"My notes say:\n{lines}"


def _hits(line: str, words: list[str]) -> int:
    return sum(1 for word in words if re.search(word, line, re.IGNORECASE))


class RunCommand(Struct, frozen=True):
    command: str
    workdir: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        if not results:
            where = {} if self.workdir == "." else {"workdir": self.workdir}
            return ToolUse("exec", {"command": self.command, **where})
        if results[0].is_error:
            return f"{_inline(self.command)} did not succeed:\n{_cut(results[0].text)}"
        return f"{_inline(self.command)} says:\n{_block(_cut(results[0].text))}"


class OfflineSkills(Struct, frozen=True):
    """Lists the skills: folders with a SKILL.md, by name."""

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        if not results:
            return ToolUse("find", {"pattern": "**/SKILL.md", "path": "."})
        found = re.findall(r"([^/\s]+)/SKILL\.md", results[0].text)
        if results[0].is_error or not found:
            return "I see no skills in the workspace. A skill is a folder under skills/ with a SKILL.md in it."
        return "Skills in the workspace:\n" + "\n".join(f"- {name}" for name in sorted(set(found)))


class Say(Struct, frozen=True):
    text: str

    def step(self, results: Sequence[ToolResult]) -> ToolUse | str:
        return self.text


# Parsing of messages.

_COMMON = frozenset(
    "the and for that with about what when where who how did you say said tell told know remember recall have has was "
    "were are is our your mine this from any note notes".split()
)
_FILE = (
    r"(?P<file>`[^`]+`|\"[^\"]+\"|'[^']+'|[\w~][\w./~-]*\.\w+|(?:[\w.~-]+/)+[\w.-]*|Makefile|LICENSE|README|Dockerfile)"
)
_PLACE = (
    r"(?:(?:directory|folder) )?"
    r"(?P<dir>`[^`]+`|\"[^\"]+\"|'[^']+'|(?!(?:here|the|this|it|my|our|your|current|workspace|directory)\b)[\w.~/-]+)"
)
_QUOTED = r"(?P<quoted>``.+?``(?!`)|`[^`]+`|\"[^\"]+\"|“[^”]+”|'[^']+')"
_QUOTES = re.compile(r"``.+?``(?!`)|`[^`]*`|\"[^\"]*\"|“[^”]*”")
_NOTE = r"(?:remember|note|make a note|write down)"
_POLITE = re.compile(r"(?:(?:please|can you|could you|would you|now|also)\s+)+", re.IGNORECASE)
_SHOW = r"(?:show|print|open|display|cat|read)(?: me)?(?: the)?(?: file| contents of| content of)*"


def _bare(text: str) -> str:
    """`text` without the one pair of quotes around it."""
    text = text.strip()
    if len(text) > 4 and text.startswith("``") and text.endswith("``"):
        return text[2:-2].strip()
    return text[1:-1] if len(text) > 1 and text[0] + text[-1] in ("``", '""', "''", "“”") else text


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "\n…"


def _status(scene: OfflineContext) -> Say:
    tools = ", ".join(sorted(scene.tools)) or "none"
    return Say(
        "Model: offline (no model configured).\n"
        f"Session: {scene.session or 'none'}, {scene.exchanges} message(s) from you.\n"
        f"Directory: {scene.here}\nTools: {tools}"
    )


def _rules(scene: OfflineContext) -> list[tuple[str, Callable[[re.Match[str]], Ability]]]:
    """The patterns and their abilities, in order; the first that matches a clause wins."""
    now = scene.now

    def where(match: re.Match[str], default: str = ".") -> str:
        groups = match.groupdict()
        found = groups.get("file") or groups.get("dir")
        return _bare(found) if found else default

    return [
        (
            rf"{_NOTE}(?: that|:| of)? (?P<note>.+)",
            lambda m: Remember(m["note"].strip(), now.strftime("%Y-%m-%d"), now.strftime("%H:%M")),
        ),
        (
            r"(?:what did i (?:say|tell you)|do you (?:remember|recall)|recall|what do you (?:know|remember))"
            r"(?: about)?(?P<topic>.*)",
            lambda m: Recall(m["topic"].strip(" ?.!")),
        ),
        (
            r"(?:what|which|list|show|tell me)?(?: are| me| about)*(?: your| the)? ?skills\b.{0,30}",
            lambda m: OfflineSkills(),
        ),
        (rf"(?:run|execute)\b[^`\"]*{_QUOTED}.*", lambda m: RunCommand(_bare(m["quoted"]), scene.place("."))),
        (
            rf"(?:find|search|look|grep|where is)\b[^`\"]*{_QUOTED}(?: in {_FILE})?.*",
            lambda m: SearchText(_bare(m["quoted"]), scene.place(where(m))),
        ),
        (
            r"find\b.*?(?P<glob>[\w./\[\]-]*[*?][\w./*?\[\]-]*|\S+\.\w+)(?: .*)?",
            lambda m: FindFiles(_bare(m["glob"]) if "*" in m["glob"] else f"**/{_bare(m['glob'])}", scene.place(".")),
        ),
        (
            rf"(?:list|ls) {_FILE}.*"
            rf"|(?:list|ls|(?:show|which|what|tell me)\b.*?\bfiles)\b.*?\b(?:in|of|under) (?:the )?{_PLACE}.*"
            r"|(?:list|ls|(?:show|which|what|tell me)\b.*\bfiles)\b.*",
            lambda m: ListFiles(scene.place(where(m)), where(m, scene.here)),
        ),
        (
            rf"(?:summari[sz]e|outline|what(?: does| is in)?|tell me (?:about|what)|explain|headings of)\b.*?{_FILE}.*",
            lambda m: Outline(scene.place(where(m)), where(m)),
        ),
        (rf"{_SHOW}\s+{_FILE}.*", lambda m: ShowFile(scene.place(where(m)), where(m))),
        (
            r"(?:what(?:'s| is)? (?:the )?(?:time|date|day)|(?:tell me |show )?(?:me )?the (?:time|date)"
            r"|what (?:time|date|day) is it)\b.*",
            lambda m: Say(f"It is {now.strftime('%A, %Y-%m-%d, %H:%M %Z').strip()}."),
        ),
        (r"(?:/|what(?:'s| is) |show |tell me )?(?:me )?(?:your |the )?status.{0,20}", lambda m: _status(scene)),
    ]


def parse_abilities(text: str, scene: OfflineContext) -> list[Ability]:
    """The abilities a message asks for, in its order; never empty."""
    abilities: list[Ability] = []
    rules = _rules(scene)
    for clause in _clauses(text):
        if len(clause) > LONGEST_CLAUSE:
            continue
        for pattern, make in rules:
            match = re.fullmatch(pattern, clause, re.IGNORECASE | re.DOTALL)
            if match:
                abilities.append(make(match))
                break
    return abilities or [Say(HOW_TO_ADD_A_MODEL)]


def _clauses(text: str) -> list[str]:
    """Splits a message at "and", "then" and sentence ends, but not in quotes or in a note to remember."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match.group(0))
        return f"\0{len(kept) - 1}\0"

    def restored(part: str) -> str:
        return re.sub(r"\0(\d+)\0", lambda match: kept[int(match.group(1))], part)

    masked = _QUOTES.sub(keep, text[:LONGEST_MESSAGE].replace("\0", " "))
    whole = _politely(re.sub(r"\s+", " ", masked).strip())
    if re.match(rf"{_NOTE}\b", whole, re.IGNORECASE):
        return [restored(whole)]
    parts = re.split(r",? and(?: then)? |,? then |; |[.!?] ", whole, flags=re.IGNORECASE)
    return [restored(_politely(part.strip(" .!?"))) for part in parts if part.strip(" .!?")]


def _politely(words: str) -> str:
    """`words` without a leading "please" and the like."""
    return words[polite.end() :] if (polite := _POLITE.match(words)) else words


# The provider.

TERMINAL_DIRECTORY = re.compile(r"^Terminal directory: (.+)$", re.MULTILINE)
FOOTER = "(Answered offline, without a model.)"


class _Turn(Struct, frozen=True):
    """The latest user message, and the tool results since."""

    text: str
    timestamp: int
    results: dict[str, ToolResult]


def _latest(messages: Sequence[Message]) -> _Turn:
    start = max((i for i, message in enumerate(messages) if isinstance(message, User)), default=-1)
    said = messages[start] if start >= 0 else User(content="")
    results = {m.tool_call_id: m for m in messages[start + 1 :] if isinstance(m, ToolResult)}
    return _Turn(said.text, said.timestamp if isinstance(said, User) else 0, results)


def respond(request: ModelRequest) -> tuple[str, tuple[ToolCall, ...]]:
    """What to say or do next: text, or tool calls."""
    turn = _latest(request.messages)
    place = TERMINAL_DIRECTORY.search(request.system.dynamic)
    scene = OfflineContext(
        here=place.group(1) if place else ".",
        now_ms=turn.timestamp,
        tools=frozenset(spec.name for spec in request.tools),
        session=request.cache_key,
        exchanges=sum(isinstance(message, User) for message in request.messages),
    )
    abilities = parse_abilities(turn.text, scene)
    calls: list[ToolCall] = []
    texts: list[str] = []
    for number, ability in enumerate(abilities):
        step = _advance(ability, f"_a{number}_s", len(request.messages), turn.results)
        calls.extend(step if isinstance(step, tuple) else ())
        texts.extend((step,) if isinstance(step, str) else ())
    if calls:
        return "", tuple(calls)
    return "\n\n".join(texts) + f"\n\n{FOOTER}", ()


def _advance(ability: Ability, mark: str, length: int, results: dict[str, ToolResult]) -> str | tuple[ToolCall, ...]:
    """The ability's next step; `mark` in a call's id says which ability made it."""
    mine = [result for call_id, result in results.items() if mark in call_id]
    step = ability.step(mine)
    if isinstance(step, str):
        return step
    return (ToolCall(id=f"offline_{length}{mark}{len(mine)}", name=step.tool, arguments=step.arguments),)


class Offline:
    """A `Provider` without a model."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        text, calls = respond(request)
        for call in calls:
            yield CallDelta(call.id, call.name, "")
        for line in text.splitlines(keepends=True):
            yield TextDelta(line)
        model = request.model
        yield Done(
            Assistant(
                content=(*((Text(text),) if text else ()), *calls),
                api=model.api,
                provider=model.provider,
                model=model.id,
                usage=Usage(),
                stop_reason="toolUse" if calls else "stop",
            )
        )

    async def close(self) -> None:
        return None

    async def models(self) -> list[Model]:
        return [Model(provider="offline", id="offline", api="offline", name="Offline responder")]
