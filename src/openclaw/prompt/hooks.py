"""What hooks may add to a finished prompt, and where it goes so that the cache survives it."""

from msgspec import Struct

from openclaw.core.text import PromptText, fence
from openclaw.prompt.build import Prompt, assemble
from openclaw.prompt.section import Section, clean, lit

IRREPLACEABLE = ("identity", "safety", "sandbox", "authorized_senders")
"""What stands in the prompt even after a hook has replaced it."""


class Additions(Struct, frozen=True, kw_only=True):
    """The answers of all handlers, in the order they ran."""

    replace: PromptText | None = None
    """A whole prompt in place of ours, from a handler that was granted this."""
    prepend: tuple[PromptText, ...] = ()
    """Stable text before the prompt."""
    append: tuple[PromptText, ...] = ()
    """Stable text behind the stable half; the runtime line stays last."""


def apply(prompt: Prompt, additions: Additions, fence_id: str = "") -> Prompt:
    """`prompt` with the additions in place, each a section of its own, so that reports and blame show who spoke."""
    if additions == Additions():
        return prompt
    stable = [piece for piece in prompt.sections if piece.stable]
    dynamic = [piece for piece in prompt.sections if not piece.stable]
    if additions.replace and clean(additions.replace):
        kept = {piece.id: piece for piece in stable if piece.id in IRREPLACEABLE}
        theirs = _piece("system", 1, additions.replace, "", before="")
        identity = [kept.pop("identity")] if "identity" in kept else []
        stable, dynamic = [*identity, theirs, *kept.values()], []
    stable = [*_pieces("prepend", additions.prepend, fence_id, after="\n"), *stable]
    stable += _pieces("append", additions.append, fence_id, before="\n")
    return Prompt(sections=(*stable, *dynamic), stable=assemble(stable).rstrip(), dynamic=assemble(dynamic))


def _pieces(
    where: str, texts: tuple[PromptText, ...], fence_id: str, *, before: str = "", after: str = ""
) -> list[Section]:
    return [
        _piece(where, number, text, fence_id, before=before, after=after)
        for number, text in enumerate(texts, 1)
        if clean(text)
    ]


def _piece(
    where: str,
    number: int,
    text: PromptText,
    fence_id: str,
    *,
    before: str,
    after: str = "",
) -> Section:
    body = clean(text)
    if fence_id:
        body = fence("PLUGIN_CONTEXT", lit(fence_id), body, source=text.source)
    return Section(
        id=f"hook:{where}:{number}",
        heading="",
        text=f"{before}{body}{after}",
        source=text.source,
        label=text.label,
    )
