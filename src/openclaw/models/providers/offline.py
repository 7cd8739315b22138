"""The offline provider, for a machine without a model: a few rule-based abilities, and a hint how to add a model.

It runs in the same loop with the same tools as any model. It is stateless: it reads what it has done so far from
the conversation, so the same request always gives the same answer.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.events import CallDelta, Done, ModelEvent, TextDelta
from openclaw.core.messages import Assistant, Text, ToolCall, ToolResult, Usage, User
from openclaw.core.provider import ModelRequest

SHOWN_CHARS = 6_000
SHOWN_NAMES = 60
LONGEST_MESSAGE = 4_000
LONGEST_CLAUSE = 400
MOST_NOTES = 2_000

HOW_TO_ADD_A_MODEL = """\
No model is set up yet, so I cannot answer that. Three ways to get one; I notice each at once:

1. A provider (Anthropic, OpenAI, Gemini, OpenRouter, …): `openclaw models auth` asks for a key, tries it and keeps \
it. On the web page: Models.
2. A model on this machine: start Ollama, LM Studio, llama.cpp or vLLM on its usual port.
3. Any OpenAI-compatible server: `openclaw models add http://host:port/v1`.

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


# Abilities: from the words that matched, the context and the results so far to the next tool call, or to the answer.


class ToolUse(Struct, frozen=True):
    """A tool call to make next."""

    tool: str
    arguments: dict[str, Any]


Words = re.Match[str]
Results = Sequence[ToolResult]
Ability = Callable[[Words, OfflineContext, Results], ToolUse | str]


def _failed(result: ToolResult) -> str:
    return f"That did not work: {result.text}"


def list_files(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    name = _named(words)
    if not results:
        return ToolUse("ls", {"path": scene.place(name or ".")})
    if results[0].is_error:
        return _failed(results[0])
    text, shown = results[0].text, name or scene.here
    names = _names(text)
    if not names:
        return f"{shown} is empty."
    listed = "\n".join(f"- {name}" for name in names[:SHOWN_NAMES])
    unlisted = re.search(r"^\[(\d+) more entries", text, re.MULTILINE)
    left = len(names[SHOWN_NAMES:]) + (int(unlisted[1]) if unlisted else 0)
    more = f"\n… and {left} more" if left else ""
    return f"Files in {shown}:\n{listed}{more}"


def _names(listing: str) -> list[str]:
    """The names in an answer of `ls`: one JSON string a line, notes between them."""
    return [str(msgspec.json.decode(line)) for line in listing.splitlines() if line.startswith('"')]


def show_file(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    name = _named(words) or "."
    if not results:
        return ToolUse("read", {"path": scene.place(name)})
    if results[0].is_error:
        return _failed(results[0])
    text = results[0].text
    body = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS].rsplit("\n", 1)[0] + "\n…"
    return f"{name}:\n{_block(body)}"


def _block(text: str) -> str:
    """`text` as a code block that its own backticks cannot close."""
    fence = "`" * max(3, 1 + _longest_ticks(text))
    return f"{fence}\n{text}\n{fence}"


def _inline(text: str) -> str:
    fence = "`" * (1 + _longest_ticks(text))
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}"


def _longest_ticks(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


def summarise_file(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    """Summarises a file by its headings, each with the first sentence under it."""
    name = _named(words) or "."
    if not results:
        return ToolUse("read", {"path": scene.place(name)})
    if results[0].is_error:
        return _failed(results[0])
    text = results[0].text
    parts = outline(text)
    if not parts:
        lines = [line for line in text.splitlines() if line.strip()]
        start = "\n".join(lines[:5])
        return f"{name} has no headings. It begins:\n{start}" if lines else f"{name} is empty."
    lines = [f"{'  ' * (level - 1)}- {title}{': ' + first if first else ''}" for level, title, first in parts]
    return f"What {name} says, by heading:\n" + "\n".join(lines)


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


def find_files(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    glob = _bare(words["glob"])
    pattern = glob if "*" in glob else f"**/{glob}"
    if not results:
        return ToolUse("find", {"pattern": pattern, "path": scene.place(".")})
    return _failed(results[0]) if results[0].is_error else f"Files that match {pattern}:\n{_cut(results[0].text)}"


def search_text(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    text = _bare(words["quoted"])
    if not results:
        path = scene.place(_named(words) or ".")
        return ToolUse("grep", {"pattern": text, "path": path, "literal": True, "ignoreCase": True})
    return _failed(results[0]) if results[0].is_error else f"Where “{text}” stands:\n{_cut(results[0].text)}"


def remember(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    """Writes a note to a new file of today; existing files are never rewritten, so no note can be lost."""
    note, day = words["note"].strip(), f"{scene.now:%Y-%m-%d}"
    if not results:
        # Only today's, because a long list is cut; and from above, because there may be no notes yet.
        return ToolUse("find", {"pattern": f"memory/{day}*.md", "path": ".", "limit": MOST_NOTES})
    names = re.findall(rf"{day}[^/\s]*\.md", results[0].text)
    number = 1
    while (name := f"{day}.md" if number == 1 else f"{day}-{number}.md") in names:
        number += 1
    if len(results) == 1:
        content = f"# {day}\n\n- {scene.now:%H:%M} {note}\n"
        return ToolUse("write", {"path": f"memory/{name}", "content": content})
    return _failed(results[1]) if results[1].is_error else f"Noted in memory/{name}: {note}"


def recall(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    """Searches the memory files for the words of the question."""
    topic = words["topic"].strip(" ?.!")
    found_words = re.findall(r"[\w-]{3,}|[^\x00-\x7f\s]+", topic)
    wanted = [re.escape(word) for word in found_words if word.lower() not in _COMMON]
    if not wanted:
        return "What shall I look for? Ask for example: what did I say about the dentist?"
    if not results:
        return ToolUse("grep", {"pattern": "|".join(wanted), "path": "memory", "ignoreCase": True})
    found = results[0]
    if found.is_error or not re.search(r"^[^\n:]+:\d+: ", found.text, re.MULTILINE):
        return f"I have no note about {topic}."
    notes = re.findall(r"^[^\n:]*?([^/\n:]+):\d+: (?:- )?(.+)$", found.text, re.MULTILINE)
    hits = [sum(bool(re.search(word, line, re.IGNORECASE)) for word in wanted) for _, line in notes]
    best = [note for note, count in zip(notes, hits, strict=True) if count == max(hits)]
    lines = "\n".join(f"- {line} ({name})" for name, line in best[:10])
    return f"My notes say:\n{lines}"


def run_command(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    command, workdir = _bare(words["quoted"]), scene.place(".")
    if not results:
        return ToolUse("exec", {"command": command, **({} if workdir == "." else {"workdir": workdir})})
    text = _cut(results[0].text)
    if results[0].is_error:
        return f"{_inline(command)} did not succeed:\n{text}"
    return f"{_inline(command)} says:\n{_block(text)}"


def list_skills(words: Words, scene: OfflineContext, results: Results) -> ToolUse | str:
    """Lists the skills: folders with a SKILL.md, by name."""
    if not results:
        return ToolUse("find", {"pattern": "**/SKILL.md", "path": "."})
    found = re.findall(r"([^/\s]+)/SKILL\.md", results[0].text)
    if results[0].is_error or not found:
        return "I see no skills in the workspace. A skill is a folder under skills/ with a SKILL.md in it."
    return "Skills in the workspace:\n" + "\n".join(f"- {name}" for name in sorted(set(found)))


def tell_time(words: Words, scene: OfflineContext, results: Results) -> str:
    return f"It is {f'{scene.now:%A, %Y-%m-%d, %H:%M %Z}'.strip()}."


def tell_status(words: Words, scene: OfflineContext, results: Results) -> str:
    tools = ", ".join(sorted(scene.tools)) or "none"
    return (
        "Model: offline (no model configured).\n"
        f"Session: {scene.session or 'none'}, {scene.exchanges} message(s) from you.\n"
        f"Directory: {scene.here}\nTools: {tools}"
    )


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
_POLITE = re.compile(r"\A(?:(?:please|can you|could you|would you|now|also)\s+)+", re.IGNORECASE)
_SHOW = r"(?:show|print|open|display|cat|read)(?: me)?(?: the)?(?: file| contents of| content of)*"


def _bare(text: str) -> str:
    """`text` without the one pair of quotes around it."""
    text = text.strip()
    if len(text) > 4 and text.startswith("``") and text.endswith("``"):
        return text[2:-2].strip()
    return text[1:-1] if len(text) > 1 and text[0] + text[-1] in ("``", '""', "''", "“”") else text


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "\n…"


def _named(words: Words) -> str:
    """The file or directory that the words name."""
    groups = words.groupdict()
    return _bare(groups.get("file") or groups.get("dir") or "")


_RULES: tuple[tuple[re.Pattern[str], Ability], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), ability)
    for pattern, ability in (
        (rf"{_NOTE}(?: that|:| of)? (?P<note>.+)", remember),
        (
            r"(?:what did i (?:say|tell you)|do you (?:remember|recall)|recall|what do you (?:know|remember))"
            r"(?: about)?(?P<topic>.*)",
            recall,
        ),
        (r"(?:what|which|list|show|tell me)?(?: are| me| about)*(?: your| the)? ?skills\b.{0,30}", list_skills),
        (rf"(?:run|execute)\b[^`\"]*{_QUOTED}.*", run_command),
        (rf"(?:find|search|look|grep|where is)\b[^`\"]*{_QUOTED}(?: in {_FILE})?.*", search_text),
        (r"find\b.*?(?P<glob>[\w./\[\]-]*[*?][\w./*?\[\]-]*|\S+\.\w+)(?: .*)?", find_files),
        (
            rf"(?:list|ls) {_FILE}.*"
            rf"|(?:list|ls|(?:show|which|what|tell me)\b.*?\bfiles)\b.*?\b(?:in|of|under) (?:the )?{_PLACE}.*"
            r"|(?:list|ls|(?:show|which|what|tell me)\b.*\bfiles)\b.*",
            list_files,
        ),
        (
            rf"(?:summari[sz]e|outline|what(?: does| is in)?|tell me (?:about|what)|explain|headings of)\b.*?{_FILE}.*",
            summarise_file,
        ),
        (rf"{_SHOW}\s+{_FILE}.*", show_file),
        (
            r"(?:what(?:'s| is)? (?:the )?(?:time|date|day)|(?:tell me |show )?(?:me )?the (?:time|date)"
            r"|what (?:time|date|day) is it)\b.*",
            tell_time,
        ),
        (r"(?:/|what(?:'s| is) |show |tell me )?(?:me )?(?:your |the )?status.{0,20}", tell_status),
    )
)
"""The patterns and their abilities, in order; the first that matches a clause wins."""


def parse_abilities(text: str) -> list[tuple[Ability, Words]]:
    """The abilities a message asks for, in its order, each with the words that match it."""
    found = []
    for clause in _clauses(text):
        for pattern, ability in _RULES if len(clause) <= LONGEST_CLAUSE else ():
            if match := pattern.fullmatch(clause):
                found.append((ability, match))
                break
    return found


def _clauses(text: str) -> list[str]:
    """Splits a message at "and", "then" and sentence ends, but not in quotes or in a note to remember."""
    kept: list[str] = []

    def keep(match: Words) -> str:
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    masked = _QUOTES.sub(keep, text[:LONGEST_MESSAGE].replace("\0", " "))
    whole = _POLITE.sub("", re.sub(r"\s+", " ", masked).strip())
    if re.match(rf"{_NOTE}\b", whole, re.IGNORECASE):
        parts = [whole]
    else:
        split = re.split(r",? and(?: then)? |,? then |; |[.!?] ", whole, flags=re.IGNORECASE)
        parts = [_POLITE.sub("", part.strip(" .!?")) for part in split if part.strip(" .!?")]
    # The text between two marks is the number of the quotation that stood there.
    pieces = [part.split("\0") for part in parts]
    return ["".join(kept[int(one)] if at % 2 else one for at, one in enumerate(piece)) for piece in pieces]


# The provider.

TERMINAL_DIRECTORY = re.compile(r"^Terminal directory: (.+)$", re.MULTILINE)
FOOTER = "(Answered offline, without a model.)"


def respond(request: ModelRequest) -> tuple[str, tuple[ToolCall, ...]]:
    """What to say or do next: text, or tool calls."""
    messages = request.messages
    asked = [at for at, message in enumerate(messages) if isinstance(message, User)]
    start = asked[-1] if asked else len(messages)
    said, *since = messages[start:] or (User(content=""),)
    place = TERMINAL_DIRECTORY.search(request.system.dynamic)
    scene = OfflineContext(
        here=place[1] if place else ".",
        now_ms=said.timestamp,
        tools=frozenset(spec.name for spec in request.tools),
        session=request.cache_key,
        exchanges=len(asked),
    )
    calls: list[ToolCall] = []
    texts: list[str] = []
    for number, (ability, words) in enumerate(parse_abilities(said.text)):
        # The mark in a call's id says which ability made it.
        mark = f"_a{number}_s"
        mine = [each for each in since if isinstance(each, ToolResult) and mark in each.tool_call_id]
        step = ability(words, scene, mine)
        if isinstance(step, str):
            texts.append(step)
        else:
            call_id = f"offline_{len(messages)}{mark}{len(mine)}"
            calls.append(ToolCall(id=call_id, name=step.tool, arguments=step.arguments))
    if calls:
        return "", tuple(calls)
    return "\n\n".join(texts or [HOW_TO_ADD_A_MODEL]) + f"\n\n{FOOTER}", ()


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
