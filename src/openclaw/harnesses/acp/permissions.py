"""What a request for permission would be as a call of one of our tools, which our gates can judge; only decides."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from openclaw.core.messages import ToolCall
from openclaw.core.tool import Decision
from openclaw.harnesses.acp.updates import paths_of

_KINDS: Mapping[Decision, tuple[str, ...]] = {
    "allow-once": ("allow_once", "allow_always"),
    "allow-always": ("allow_always", "allow_once"),
    "deny": ("reject_once", "reject_always"),
}


def as_call(about: Mapping[str, Any], workspace: str) -> ToolCall | None:
    """The call that stands for what the agent asks; None when it is nothing our gates know, so a person is asked.

    Files outside the workspace are a person's decision, and so is deleting and moving.
    """
    given = about.get("rawInput")
    raw: Mapping[str, Any] = given if isinstance(given, dict) else {}
    call_id = str(about.get("toolCallId") or "")
    match about.get("kind"):
        case "execute":
            command = raw.get("command") or raw.get("cmd")
            if isinstance(command, str) and command.strip():
                where = raw.get("cwd") or raw.get("workdir")
                return ToolCall(
                    call_id, "exec", {"command": command, **({"workdir": where} if isinstance(where, str) else {})}
                )
        case "fetch":
            if isinstance(raw.get("url"), str):
                return ToolCall(call_id, "web_fetch", {"url": raw["url"]})
        case "read" | "edit" as kind:
            named = next((raw[key] for key in ("path", "file_path", "filePath") if isinstance(raw.get(key), str)), None)
            paths = paths_of(about) or ([named] if named else [])
            if len(paths) == 1 and _inside(paths[0], workspace):
                if kind == "read":
                    return ToolCall(call_id, "read", {"path": paths[0]})
                return ToolCall(call_id, "write", {"path": paths[0], "content": _new_text(about, raw)})
    return None


def _inside(path: str, workspace: str) -> bool:
    whole = PurePath(workspace, path)
    return ".." not in whole.parts and whole.is_relative_to(workspace)


def _new_text(about: Mapping[str, Any], raw: Mapping[str, Any]) -> str:
    parts = [str(each.get("newText") or "") for each in about.get("content") or () if each.get("type") == "diff"]
    written = [raw[key] for key in ("content", "new_string", "newText") if isinstance(raw.get(key), str)]
    return "\n".join(parts or written)


def choose_option(options: Sequence[Mapping[str, str]], decision: Decision) -> str | None:
    """The agent's option that means `decision`; None when it offers none, which is a no."""
    by_kind = {each["kind"]: each["id"] for each in options}
    return next((by_kind[kind] for kind in _KINDS[decision] if kind in by_kind), None)
