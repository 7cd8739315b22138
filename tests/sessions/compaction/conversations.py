"""Conversations of every kind, for properties that must hold for all of them."""

from collections.abc import Sequence

from hypothesis import strategies as st

from openclaw.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from openclaw.sessions.transcript import AnyEntry, Compaction, Custom, MessageEntry

words = st.text(alphabet="abc xyz\n時間é", max_size=400)
IDS = ("a", "b", "c", "d")


@st.composite
def message(draw: st.DrawFn) -> Message:
    kind = draw(st.sampled_from(("user", "picture", "reply", "calls", "result")))
    if kind == "user":
        return User(content=draw(words))
    if kind == "picture":
        return User(content=(Text(draw(words)), Image(data="eA==", mime_type="image/png")))
    if kind == "result":
        return ToolResult(tool_call_id=draw(st.sampled_from(IDS)), tool_name="read", content=(Text(draw(words)),))
    blocks: list[Text | Thinking | ToolCall] = [Text(draw(words)), Thinking(draw(words))]
    if kind == "calls":
        ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True))
        blocks += [ToolCall(id=each, name="read", arguments={"path": draw(words)}) for each in ids]
    return Assistant(content=tuple(blocks))


messages = st.lists(message(), max_size=25)


@st.composite
def path(draw: st.DrawFn) -> list[AnyEntry]:
    """A conversation on disk, compacted anywhere any number of times."""
    entries: list[AnyEntry] = []
    for said in draw(messages):
        name = f"e{len(entries)}"
        if entries and draw(st.integers(0, 9)) == 0:
            first = draw(st.sampled_from([entry.id for entry in entries]))
            entries.append(Compaction(id=f"{name}k", summary=draw(words), first_kept_entry_id=first))
        if draw(st.integers(0, 9)) == 0:
            entries.append(Custom(id=f"{name}c", custom_type="other"))
        entries.append(MessageEntry(id=name, message=said))
    return linked(entries)


def linked(entries: Sequence[AnyEntry]) -> list[AnyEntry]:
    from msgspec import structs

    out: list[AnyEntry] = []
    for entry in entries:
        out.append(structs.replace(entry, parent_id=out[-1].id if out else None))
    return out


def talk(*said: Message) -> list[AnyEntry]:
    return linked([MessageEntry(id=f"e{place}", message=each) for place, each in enumerate(said)])
