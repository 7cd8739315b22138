"""The `edit` tool: replaces passages of a text file and leaves every other byte alone."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Event
from typing import Annotated, Any

from msgspec import Struct, structs

from openclaw.core.deferred import difflib
from openclaw.core.errors import InvalidRequest
from openclaw.core.tool import Output, ToolContext, param, tool_spec
from openclaw.process.tasks import run_in_thread
from openclaw.tools.base import ChangingFileTool
from openclaw.tools.paths import encode_text, quote_path, read_text, replace, resolve_path

# The replacement, pure.

CONTEXT = 3

# Each maps one character to one character, so that positions stay valid.
_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)


class TextEdit(Struct, frozen=True, rename="camel"):
    old_text: Annotated[str, param()]
    new_text: Annotated[str, param()]


class Edited(Struct, frozen=True, kw_only=True):
    text: str
    diff: str
    first_changed_line: int


class NotFoundOnce(Struct, frozen=True):
    """Edit number `index` matches `count` places instead of one."""

    index: int
    count: int


class Overlapping(Struct, frozen=True):
    first: int
    second: int


class Unchanged(Struct, frozen=True):
    """The edits change nothing."""


class TextSpan(Struct, frozen=True, order=True):
    start: int
    end: int
    index: int
    replacement: str


def fold_lookalikes(text: str) -> str:
    """`text` with typographic quotes, dashes and spaces made plain; the length stays the same."""
    return text.translate(_LOOKALIKES)


def apply_edits(
    text: str, edits: tuple[TextEdit, ...], newline: str
) -> Edited | NotFoundOnce | Overlapping | Unchanged:
    """Applies all `edits` at once; `newline` is the ending of inserted lines, empty to keep theirs.

    Old text is searched in lines that end in a bare newline, so it matches whatever the file's endings are; everything
    outside the replaced passages stays the same to the byte.
    """
    view = _View(text)
    spans: list[TextSpan] = []
    for index, edit in enumerate(edits):
        found = view.find(edit.old_text.replace("\r\n", "\n"))
        if isinstance(found, int):
            return NotFoundOnce(index, found)
        new = edit.new_text.replace("\r\n", "\n").replace("\n", newline) if newline else edit.new_text
        spans.append(TextSpan(*found, index, new))
    spans.sort()
    for left, right in pairwise(spans):
        if right.start < left.end:
            return Overlapping(*sorted((left.index, right.index)))
    changed = _apply(text, spans)
    if changed == text:
        return Unchanged()
    diff, first = _diff(text, spans)
    return Edited(text=changed, diff=diff, first_changed_line=first)


def _apply(text: str, spans: list[TextSpan]) -> str:
    parts, position = [], 0
    for span in spans:
        parts += [text[position : span.start], span.replacement]
        position = span.end
    return "".join([*parts, text[position:]])


class _View:
    """A text as the model sees it, with positions mapped to the original."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self._crlf = _crlf_positions(text) if len(self.text) != len(text) else []
        self._loose: _Loose | None = None

    def find(self, wanted: str) -> tuple[int, int] | int:
        """The position of `wanted`, exactly or nearly; the number of matches when it is not one."""
        exact = _only(self.text, wanted)
        if isinstance(exact, tuple):
            return self._real(*exact)
        if exact:
            return exact
        if self._loose is None:
            self._loose = _Loose(self.text)
        near = self._loose.find(wanted)
        return self._real(*near) if isinstance(near, tuple) else near

    def _real(self, start: int, end: int) -> tuple[int, int]:
        return start + bisect_left(self._crlf, start), end + bisect_left(self._crlf, end)


def _crlf_positions(text: str) -> list[int]:
    """The positions, in the view, of newlines that stand for two characters."""
    found: list[int] = []
    at = text.find("\r\n")
    while at >= 0:
        found.append(at - len(found))
        at = text.find("\r\n", at + 2)
    return found


class _Loose:
    """A text without trailing spaces and with plain punctuation; columns are those of the original."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        loose = _loosen(text).split("\n")
        self.text = "\n".join(loose)
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]
        self._loose_starts = [0, *accumulate(len(line) + 1 for line in loose)]

    def find(self, wanted: str) -> tuple[int, int] | int:
        loose = _loosen(wanted)
        if not loose.strip():
            return 0
        found = _only(self.text, loose)
        return (self._back(found[0]), self._back(found[1])) if isinstance(found, tuple) else found

    def _back(self, position: int) -> int:
        line = bisect_right(self._loose_starts, position) - 1
        return self._starts[line] + position - self._loose_starts[line]


def _loosen(text: str) -> str:
    return "\n".join(line.rstrip() for line in fold_lookalikes(text).split("\n"))


def _only(text: str, wanted: str) -> tuple[int, int] | int:
    start = text.find(wanted) if wanted else -1
    if start < 0:
        return 0
    if text.find(wanted, start + 1) >= 0:
        return max(2, text.count(wanted))
    return start, start + len(wanted)


def _diff(text: str, spans: list[TextSpan]) -> tuple[str, int]:
    """A unified diff of the environment of `spans`, and the first changed line of the new text."""
    lines = _split(text)
    starts = [0, *accumulate(map(len, lines))]
    output: list[str] = []
    first, shift = 0, 0
    for group in _neighbourhoods(spans, starts):
        top = max(0, bisect_right(starts, group[0].start) - 1 - CONTEXT)
        bottom = min(len(lines), bisect_right(starts, group[-1].end) + CONTEXT)
        base = starts[top]
        local = [TextSpan(span.start - base, span.end - base, span.index, span.replacement) for span in group]
        old = lines[top:bottom]
        new = _split(_apply("".join(old), local))
        hunks, changed = _hunks(old, new, top, top + shift)
        output += hunks
        first = first or changed
        shift += len(new) - len(old)
    return "\n".join(output), first


def _split(text: str) -> list[str]:
    """Lines with their newlines; only a newline ends one."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _neighbourhoods(spans: list[TextSpan], starts: list[int]) -> list[list[TextSpan]]:
    groups: list[list[TextSpan]] = []
    last = -1
    for span in spans:
        line = bisect_right(starts, span.start) - 1
        if groups and line - last <= 2 * CONTEXT + 1:
            groups[-1].append(span)
        else:
            groups.append([span])
        last = bisect_right(starts, span.end) - 1
    return groups


def _hunks(old: list[str], new: list[str], old_base: int, new_base: int) -> tuple[list[str], int]:
    output: list[str] = []
    first = 0
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        output.append(f"@@ -{old_base + i1 + 1},{i2 - i1} +{new_base + j1 + 1},{j2 - j1} @@")
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                output += [" " + line.rstrip("\r\n") for line in old[a1:a2]]
                continue
            first = first or new_base + b1 + 1
            output += ["-" + line.rstrip("\r\n") for line in old[a1:a2]]
            output += ["+" + line.rstrip("\r\n") for line in new[b1:b2]]
    return output, first


# The tool.

MAX_SHOWN = 4000


class EditArgs(Struct, frozen=True, rename="camel"):
    path: Annotated[str, param()]
    edits: Annotated[tuple[TextEdit, ...], param()] = ()
    old_text: Annotated[str | None, param("with newText: a single edit, instead of edits")] = None
    new_text: Annotated[str | None, param()] = None

    def all(self) -> tuple[TextEdit, ...]:
        """Both forms of a call's edits, as one list."""
        if (self.old_text is None) != (self.new_text is None):
            raise InvalidRequest("oldText and newText go together: give both, or use edits.")
        single = () if self.old_text is None or self.new_text is None else (TextEdit(self.old_text, self.new_text),)
        found = self.edits + single
        if not found:
            raise InvalidRequest("Nothing to edit: give edits, a list of {oldText, newText}.")
        return found


class EditTool(ChangingFileTool[EditArgs]):
    """The `edit` tool."""

    args_type = EditArgs
    spec = tool_spec(
        "edit",
        "Edit",
        "make exact changes in a file",
        "Replace exact text in a file. Each oldText must occur exactly once, copied with its indentation; edits must "
        "not overlap and are made together.",
        EditArgs,
        rare=("oldText", "newText"),
        aliases={
            "file_path": "path",
            "filePath": "path",
            "old_string": "oldText",
            "new_string": "newText",
            "old_text": "oldText",
            "new_text": "newText",
        },
    )

    def changed(self, wanted: EditArgs) -> tuple[str]:
        return (wanted.path,)

    def resources(self, args: Mapping[str, Any], context: ToolContext, *, creating: bool = False) -> frozenset[str]:
        return super().resources(_renamed(args), context, creating=creating)

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        return await super().call(_renamed(args), context)

    async def run(self, wanted: EditArgs, context: ToolContext) -> Output:
        edits = wanted.all()
        for index, edit in enumerate(edits):
            _check(edit, _name(index, edits), wanted.path)
        path = resolve_path(wanted.path, context.workspace, workspace_only=self.workspace_only)
        done = await run_in_thread(partial(_edit, path, wanted.path, edits))
        return Output.of(
            f"Successfully replaced {len(edits)} block(s) in {quote_path(wanted.path)}.",
            path=str(path),
            diff=done.diff.encode("utf-8", "replace").decode(),
            firstChangedLine=done.first_changed_line,
        )


def _renamed(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """`args` with other names that models use inside `edits` replaced by the real ones."""
    edits = args.get("edits")
    if not isinstance(edits, list | tuple):
        return args
    renamed = [
        {EditTool.spec.aliases.get(name, name): value for name, value in edit.items()}
        if isinstance(edit, Mapping)
        else edit
        for edit in edits
    ]
    return {**args, "edits": renamed}


def _name(index: int, edits: tuple[TextEdit, ...]) -> str:
    return f"edits[{index}].oldText" if len(edits) > 1 else "oldText"


def _check(edit: TextEdit, name: str, path: str) -> None:
    if not edit.old_text:
        raise InvalidRequest(f"{name} is empty: give the text to replace, or use write to create a file.")
    if edit.old_text == edit.new_text:
        raise InvalidRequest(f"{name} and its newText are identical: nothing would change in {quote_path(path)}.")
    encode_text(edit.new_text, "newText")


def _edit(path: Path, given: str, edits: tuple[TextEdit, ...], stop: Event) -> Edited:
    file = read_text(path, "edit")
    done = apply_edits(file.text, edits, file.newline)
    match done:
        case Edited():
            replace(path, structs.replace(file, text=done.text).encode())
            return done
        case NotFoundOnce(index, 0):
            raise InvalidRequest(_not_found(file.text, _name(index, edits), given))
        case NotFoundOnce(index, count):
            raise InvalidRequest(
                f"Found {count} occurrences of the text in {quote_path(given)}. The text must be unique: "
                f"add surrounding lines to {_name(index, edits)}."
            )
        case Overlapping(first, second):
            raise InvalidRequest(
                f"edits[{first}] and edits[{second}] overlap in {quote_path(given)}: merge them into one edit."
            )
        case _:
            raise InvalidRequest(f"No changes made to {quote_path(given)}: the result would be identical.")


def _not_found(text: str, name: str, given: str) -> str:
    message = (
        f"Could not find the exact text in {quote_path(given)}. "
        f"{name} must match it, with all its spaces and line breaks."
    )
    if len(text) > MAX_SHOWN:
        return f"{message} Read the file and copy the text from there."
    current = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return f"{message} Current contents:\n\n{current}" if current.strip() else f"{message} The file is empty."
