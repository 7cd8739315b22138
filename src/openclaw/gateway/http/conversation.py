"""How the messages of a request become one turn. Pure.

A session remembers what was said, so one that goes on gets only what is new. A fresh one gets what the client says
was said before as context, because it was never part of our transcript.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from openclaw.core.messages import Image
from openclaw.gateway.http.images import MOST_IMAGES
from openclaw.gateway.http.problems import HttpProblem


class RequestedAnswer(Struct, frozen=True):
    """A call the assistant made earlier, as the client repeats it."""

    id: str
    name: str
    arguments: str


class RequestText(Struct, frozen=True, kw_only=True):
    """One message of a request."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    images: tuple[Image, ...] = ()
    calls: tuple[RequestedAnswer, ...] = ()
    call_id: str = ""


class RequestedTurn(Struct, frozen=True, kw_only=True):
    """What a turn starts from."""

    text: str
    images: tuple[Image, ...] = ()
    extra: str = ""


def compose(said: Sequence[RequestText], *, fresh: bool) -> RequestedTurn:
    """The turn behind a request."""
    if sum(len(each.images) for each in said) > MOST_IMAGES:
        raise HttpProblem(400, f"more than {MOST_IMAGES} images: send fewer", code="too_many_images")
    names = {call.id: call.name for each in said for call in each.calls}
    extra = "\n\n".join(each.text for each in said if each.role == "system" and each.text.strip())
    talk = [each for each in said if each.role != "system"]
    new = _newest(talk)
    if not any(each.text.strip() or each.images for each in new):
        raise HttpProblem(
            400, "there is nothing to answer: send a user message with text or an image", param="messages"
        )
    earlier = [each for each in talk if not any(each is one for one in new)] if fresh else []
    text = "\n\n".join(_shown(each, names) if each.role == "tool" else each.text for each in new)
    if earlier:
        before = "\n\n".join(_shown(each, names) for each in earlier)
        text = f"[The conversation so far, as the client tells it]\n\n{before}\n\n[What to answer now]\n\n{text}"
    images = tuple(image for each in (*earlier, *new) for image in each.images)
    return RequestedTurn(text=text, images=images, extra=extra)


def _newest(talk: Sequence[RequestText]) -> list[RequestText]:
    """What the assistant has not heard yet: results of its calls, and the last thing the person said."""
    end = max((place for place, each in enumerate(talk) if each.role in ("user", "tool")), default=-1)
    start = max((place for place, each in enumerate(talk[: end + 1]) if each.role == "assistant"), default=-1)
    recent = talk[start + 1 : end + 1]
    last_user = next((each for each in reversed(recent) if each.role == "user"), None)
    return [each for each in recent if each.role == "tool" or each is last_user]


def _shown(each: RequestText, names: dict[str, str]) -> str:
    pictures = [f"[{len(each.images)} image{'s' if len(each.images) > 1 else ''}]"] if each.images else []
    if each.role == "tool":
        name = names.get(each.call_id, "a function")
        return "\n".join([f"Result of {name} ({each.call_id}):", *filter(None, [each.text or "(nothing)"]), *pictures])
    calls = [f"Called {call.name} ({call.id}) with {call.arguments}" for call in each.calls]
    who = "Assistant" if each.role == "assistant" else "User"
    return "\n".join([f"{who}: {each.text}".rstrip(), *pictures, *calls])
