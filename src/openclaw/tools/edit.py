"""Editing: pieces of a text file replaced, everything else left to the byte."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools.answer import answers, parse_args
from openclaw.tools.files import encoded, read_text, replace
from openclaw.tools.finishing import offload
from openclaw.tools.paths import lock_name, place, shown
from openclaw.tools.textedit import Edited, NotFoundOnce, Overlapping, TextEdit, change

MAX_SHOWN = 4000


class EditArgs(Struct, frozen=True, rename="camel"):
    path: str
    edits: tuple[TextEdit, ...] = ()
    old_text: str | None = None
    new_text: str | None = None

    def all(self) -> tuple[TextEdit, ...]:
        """Both forms a call may take, as one list."""
        if (self.old_text is None) != (self.new_text is None):
            raise InvalidRequest("oldText and newText go together: give both, or use edits.")
        single = () if self.old_text is None or self.new_text is None else (TextEdit(self.old_text, self.new_text),)
        found = self.edits + single
        if not found:
            raise InvalidRequest("Nothing to edit: give edits, a list of {oldText, newText}.")
        return found


class EditFile:
    """The `edit` tool."""

    spec = ToolSpec(
        name="edit",
        label="Edit",
        summary="make precise changes to files",
        description=(
            "Replace pieces of a text file. Each oldText must occur exactly once in the file as it is now and the "
            "pieces must not overlap; all are replaced together. Copy oldText from the file, with its indentation."
        ),
        parameters={
            "type": "object",
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "File path, absolute or from the workspace"},
                "edits": {
                    "type": "array",
                    "description": "The replacements",
                    "items": {
                        "type": "object",
                        "required": ["oldText", "newText"],
                        "properties": {
                            "oldText": {"type": "string", "description": "Text to replace"},
                            "newText": {"type": "string", "description": "Text to put there"},
                        },
                    },
                },
                "oldText": {"type": "string", "description": "Text to replace, for a single edit without edits"},
                "newText": {"type": "string", "description": "Text to put there"},
            },
        },
        aliases={
            "file_path": "path",
            "filePath": "path",
            "old_string": "oldText",
            "new_string": "newText",
            "old_text": "oldText",
            "new_text": "newText",
        },
    )

    def __init__(self, *, workspace_only: bool = False) -> None:
        self.workspace_only = workspace_only

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.READS_FILES | Effects.WRITES_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        try:
            return frozenset({lock_name(place(_parse(args).path, context.workspace))})
        except OpenClawError:
            return frozenset()  # the call itself will say what is wrong

    @answers
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = _parse(args)
        edits = wanted.all()
        for index, edit in enumerate(edits):
            _check(edit, _name(index, edits), wanted.path)
        path = place(wanted.path, context.workspace, workspace_only=self.workspace_only)
        done = await offload(lambda stop: _edit(path, wanted.path, edits))
        return Output.of(
            f"Successfully replaced {len(edits)} block(s) in {shown(wanted.path)}.",
            path=str(path),
            diff=done.diff.encode("utf-8", "replace").decode(),
            firstChangedLine=done.first_changed_line,
        )


def _parse(args: Mapping[str, Any]) -> EditArgs:
    """`args` with the other names models use inside `edits` made ours."""
    edits = args.get("edits")
    if not isinstance(edits, list | tuple):
        return parse_args(args, EditArgs)
    renamed = [
        {EditFile.spec.aliases.get(name, name): value for name, value in edit.items()}
        if isinstance(edit, Mapping)
        else edit
        for edit in edits
    ]
    return parse_args({**args, "edits": renamed}, EditArgs)


def _name(index: int, edits: tuple[TextEdit, ...]) -> str:
    return f"edits[{index}].oldText" if len(edits) > 1 else "oldText"


def _check(edit: TextEdit, name: str, path: str) -> None:
    if not edit.old_text:
        raise InvalidRequest(f"{name} is empty: give the text to replace, or use write to create a file.")
    if edit.old_text == edit.new_text:
        raise InvalidRequest(f"{name} and its newText are identical: nothing would change in {shown(path)}.")
    encoded(edit.new_text, "newText")


def _edit(path: Path, given: str, edits: tuple[TextEdit, ...]) -> Edited:
    file = read_text(path, "edit")
    done = change(file.text, edits, file.newline)
    match done:
        case Edited():
            replace(path, structs.replace(file, text=done.text).encode())
            return done
        case NotFoundOnce(index, 0):
            raise InvalidRequest(_not_found(file.text, _name(index, edits), given))
        case NotFoundOnce(index, count):
            raise InvalidRequest(
                f"Found {count} occurrences of the text in {shown(given)}. The text must be unique: "
                f"add surrounding lines to {_name(index, edits)}."
            )
        case Overlapping(first, second):
            raise InvalidRequest(
                f"edits[{first}] and edits[{second}] overlap in {shown(given)}: merge them into one edit."
            )
        case _:
            raise InvalidRequest(f"No changes made to {shown(given)}: the result would be identical.")


def _not_found(text: str, name: str, given: str) -> str:
    message = (
        f"Could not find the exact text in {shown(given)}. {name} must match it, with all its spaces and line breaks."
    )
    if len(text) > MAX_SHOWN:
        return f"{message} Read the file and copy the text from there."
    current = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return f"{message} Current contents:\n\n{current}" if current.strip() else f"{message} The file is empty."
