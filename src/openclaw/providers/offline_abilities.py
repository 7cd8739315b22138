"""What the offline responder can do, one ability each: the words it listens for, its tool, its answer."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from openclaw.core.messages import ToolResult

SHOWN_CHARS = 6_000
SHOWN_NAMES = 60
LONGEST_MESSAGE = 4_000
LONGEST_CLAUSE = 400

HOW_TO_ADD_A_MODEL = """\
No model is configured, so I cannot answer that. Three ways to add one:

1. Set a key and ask again: `export ANTHROPIC_API_KEY=…` (or `OPENAI_API_KEY`, `GEMINI_API_KEY`, `OPENROUTER_API_KEY`).
2. Run a model on this machine: start Ollama, LM Studio, llama.cpp or vLLM on its usual port; it is found by itself.
3. Name any OpenAI-compatible server: `openclaw config set models.providers.mine '{baseUrl: "http://host:port/v1", \
api: "openai-completions", models: [{id: "model-name"}]}'`, \
then `openclaw config set agents.defaults.model mine/model-name`.

Until then I can list, find, show and summarise files, remember notes and find them again, tell the time, \
my status and the skills I see, and run a command you put in backticks."""


class Scene(Struct, frozen=True, kw_only=True):
    """Where and when the person speaks."""

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


class Use(Struct, frozen=True):
    """A tool call to make next."""

    tool: str
    arguments: dict[str, Any]


class Ability(Protocol):
    def step(self, results: Sequence[ToolResult]) -> Use | str:
        """The next tool call, or the answer once there is nothing left to do."""
        ...


def _answer(result: ToolResult, success: Callable[[str], str]) -> str:
    return f"That did not work: {result.text}" if result.is_error else success(result.text)


class ListFiles(Struct, frozen=True):
    path: str
    shown: str

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        if not results:
            return Use("ls", {"path": self.path})
        return _answer(results[0], self._format)

    def _format(self, text: str) -> str:
        names = [line.strip().strip('"') for line in text.splitlines() if line.strip()]
        notes = [name for name in names if name.startswith("[")]
        names = [name for name in names if not name.startswith("[")]
        if not names:
            return f"{self.shown} is empty."
        listed = "\n".join(f"- {name}" for name in names[:SHOWN_NAMES])
        more = f"\n… and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES or notes else ""
        return f"Files in {self.shown}:\n{listed}{more}"


class ShowFile(Struct, frozen=True):
    path: str
    shown: str

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        if not results:
            return Use("read", {"path": self.path})
        return _answer(results[0], self._format)

    def _format(self, text: str) -> str:
        body = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS].rsplit("\n", 1)[0] + "\n…"
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", body)), default=0))
        return f"{self.shown}:\n{fence}\n{body}\n{fence}"


class Outline(Struct, frozen=True):
    """A file told by its headings, each with the first sentence under it."""

    path: str
    shown: str

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        if not results:
            return Use("read", {"path": self.path})
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

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        if not results:
            return Use("find", {"pattern": self.pattern, "path": self.path})
        return _answer(results[0], lambda text: f"Files that match {self.pattern}:\n{_cut(text)}")


class SearchText(Struct, frozen=True):
    text: str
    path: str

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        if not results:
            return Use("grep", {"pattern": self.text, "path": self.path, "literal": True, "ignoreCase": True})
        return _answer(results[0], lambda text: f"Where “{self.text}” stands:\n{_cut(text)}")


class Remember(Struct, frozen=True):
    """Adds a note to today's memory file: look at what is there, then write it back with the note."""

    note: str
    day: str
    time: str

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        path = f"memory/{self.day}.md"
        if not results:
            return Use("ls", {"path": "memory"})
        if len(results) == 1:
            names = [] if results[0].is_error else [line.strip().strip('"') for line in results[0].text.splitlines()]
            # One file a note from the second on: a file that was not read whole is never written back.
            number = 1
            while (f"{self.day}.md" if number == 1 else f"{self.day}-{number}.md") in names:
                number += 1
            path = path if number == 1 else f"memory/{self.day}-{number}.md"
            return Use("write", {"path": path, "content": f"# {self.day}\n\n- {self.time} {self.note}\n"})
        wrote = re.search(r"memory/\S+\.md", results[1].text)
        return _answer(results[1], lambda text: f"Noted in {wrote.group(0) if wrote else path}: {self.note}")


class Recall(Struct, frozen=True):
    """Looks for the words of the question in the memory files."""

    topic: str

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        words = [re.escape(word) for word in re.findall(r"[\w-]{3,}", self.topic) if word.lower() not in _COMMON]
        if not words:
            return "What shall I look for? Ask for example: what did I say about the dentist?"
        if not results:
            return Use("grep", {"pattern": "|".join(words), "path": "memory", "ignoreCase": True})
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

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        if not results:
            where = {} if self.workdir == "." else {"workdir": self.workdir}
            return Use("exec", {"command": self.command, **where})
        if results[0].is_error:
            return f"`{self.command}` did not succeed:\n{_cut(results[0].text)}"
        return f"`{self.command}` says:\n```\n{_cut(results[0].text)}\n```"


class Skills(Struct, frozen=True):
    """Skills are folders with a SKILL.md; their names are the folders' names."""

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        if not results:
            return Use("find", {"pattern": "**/SKILL.md", "path": "."})
        found = re.findall(r"([^/\s]+)/SKILL\.md", results[0].text)
        if results[0].is_error or not found:
            return "I see no skills in the workspace. A skill is a folder under skills/ with a SKILL.md in it."
        return "Skills in the workspace:\n" + "\n".join(f"- {name}" for name in sorted(set(found)))


class Say(Struct, frozen=True):
    text: str

    def step(self, results: Sequence[ToolResult]) -> Use | str:
        return self.text


_COMMON = frozenset(
    "the and for that with about what when where who how did you say said tell told know remember recall have has was "
    "were are is our your mine this from any note notes".split()
)
_FILE = (
    r"(?P<file>`[^`]+`|\"[^\"]+\"|'[^']+'|[\w~][\w./~-]*\.\w+|(?:[\w.~-]+/)+[\w.-]*|Makefile|LICENSE|README|Dockerfile)"
)
_QUOTED = r"(?P<quoted>`[^`]+`|\"[^\"]+\"|“[^”]+”|'[^']+')"
_NOTE = r"(?:remember|note|make a note|write down)"
_POLITE = re.compile(r"(?:(?:please|can you|could you|would you|now|also)\s+)+", re.IGNORECASE)
_SHOW = r"(?:show|print|open|display|cat|read)(?: me)?(?: the)?(?: file| contents of| content of)*"


def _bare(text: str) -> str:
    return text.strip().strip("`\"'“”")


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "\n…"


def _status(scene: Scene) -> Say:
    tools = ", ".join(sorted(scene.tools)) or "none"
    return Say(
        "Model: offline (no model configured).\n"
        f"Session: {scene.session or 'none'}, {scene.exchanges} message(s) from you.\n"
        f"Directory: {scene.here}\nTools: {tools}"
    )


def _rules(scene: Scene) -> list[tuple[str, Callable[[re.Match[str]], Ability]]]:
    """What to listen for, in order; the first that fits a clause wins."""
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
        (rf"(?:run|execute)\b[^`\"]*{_QUOTED}.*", lambda m: RunCommand(_bare(m["quoted"]), scene.place("."))),
        (
            rf"(?:find|search|look|grep|where is)\b[^`\"]*{_QUOTED}(?: in {_FILE})?.*",
            lambda m: SearchText(_bare(m["quoted"]), scene.place(where(m))),
        ),
        (
            r"find\b.*?(?P<glob>[\w./*?\[\]-]*[*?][\w./*?\[\]-]*|\S+\.\w+)",
            lambda m: FindFiles(_bare(m["glob"]) if "*" in m["glob"] else f"**/{_bare(m['glob'])}", scene.place(".")),
        ),
        (
            rf"(?:list|ls)(?: all| the| files)*(?: in| of| under)?(?: the)? {_FILE}.*"
            rf"|(?:show|which|what|list)\b.*\bfiles\b.*?\b(?:in|of|under)\s+(?:the )?{_FILE.replace('file>', 'dir>')}.*"
            r"|(?:list|ls|(?:show|which|what|tell me)\b.*\bfiles)\b.*",
            lambda m: ListFiles(scene.place(where(m)), where(m, scene.here)),
        ),
        (
            rf"(?:summari[sz]e|outline|what(?: does| is in)?|tell me (?:about|what)|explain|headings of)\b.*?{_FILE}.*",
            lambda m: Outline(scene.place(where(m)), where(m)),
        ),
        (rf"{_SHOW}\s+{_FILE}.*", lambda m: ShowFile(scene.place(where(m)), where(m))),
        (
            r"(?:what(?:'s| is)? (?:the )?(?:time|date|day)|(?:tell me )?the time|what (?:time|date|day) is it)\b.*",
            lambda m: Say(f"It is {now.strftime('%A, %Y-%m-%d, %H:%M %Z').strip()}."),
        ),
        (r"(?:what|which|list|show)?(?: me)?(?: your| the)? ?skills\b.{0,30}", lambda m: Skills()),
        (r"(?:/|what(?:'s| is) |show |tell me )?(?:me )?(?:your |the )?status.{0,20}", lambda m: _status(scene)),
    ]


def understand(text: str, scene: Scene) -> list[Ability]:
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
    """A message cut at "and", "then" and sentence ends, except inside quotes and in a note to remember."""
    whole = re.sub(r"\s+", " ", text[:LONGEST_MESSAGE]).strip()
    whole = whole[polite.end() :] if (polite := _POLITE.match(whole)) else whole
    if re.match(rf"{_NOTE}\b", whole, re.IGNORECASE):
        return [whole]
    quotes = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”")
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match.group(0))
        return f"\0{len(kept) - 1}\0"

    parts = re.split(r",? and(?: then)? |,? then |; |[.!?] ", quotes.sub(keep, whole), flags=re.IGNORECASE)
    restore = re.compile(r"\0(\d+)\0")
    clauses = [restore.sub(lambda m: kept[int(m.group(1))], part).strip(" .!?") for part in parts]
    return [clause[polite.end() :] if (polite := _POLITE.match(clause)) else clause for clause in clauses if clause]
