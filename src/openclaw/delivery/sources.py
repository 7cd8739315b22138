"""Sources that an answer names, held back while it is written until they can be looked up.

Pure but for what the gate has read so far. What it lets through piece by piece is the beginning of what the check makes
of the whole message.
"""

from collections.abc import Callable

from openclaw.core.patterns import lazy

# The end of a text that may yet name a line of a note: a line `Source: …` with the empty lines before it, or the number
# of a line behind the name of a file. The name itself stays, whether there is such a line or not.
_UNSURE = lazy(
    r"(?:\A|\n+)(?:S|So|Sou|Sour|Sourc|Source|Source:[^\n]*)?\Z"
    r"|(?:(?<=\.md)|(?<=\.jsonl))#[L\d-]*\Z"
)
_LAST_WORD = lazy(r"\s?\S*\Z")
_NAME_CHARS = 300


class SourceGate:
    """Lets a message through as it is written, all but an end that may be a source nobody has looked up."""

    def __init__(self, check: Callable[[str], str]) -> None:
        self._check = check
        """A text without the sources that do not exist."""
        self._held = ""
        self._word = ""
        """The last word that was let through, with the blank before it: a line of the file it names may come next."""

    def feed(self, text: str) -> str:
        self._held += text
        known = len(self._word)
        whole = self._word + self._held
        unsure = _UNSURE.search(whole, known)
        cut = unsure.start() if unsure else len(whole)
        ready, self._held = whole[:cut], whole[cut:]
        if "#" in ready:
            ready = self._check(ready)
        self._word = _last_word(ready)
        return ready[known:]


def _last_word(text: str) -> str:
    found = _LAST_WORD.search(text, max(0, len(text) - _NAME_CHARS))
    return found[0] if found else ""
