"""Keys as a terminal sends them. No I/O."""

import re
from collections.abc import Sequence

from openclaw.core.errors import InvalidRequest

_NAMED = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "escape": "\x1b",
    "esc": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "bspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "insert": "\x1b[2~",
    "delete": "\x1b[3~",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "f4": "\x1bOS",
    "f5": "\x1b[15~",
    "f6": "\x1b[17~",
    "f7": "\x1b[18~",
    "f8": "\x1b[19~",
    "f9": "\x1b[20~",
    "f10": "\x1b[21~",
    "f11": "\x1b[23~",
    "f12": "\x1b[24~",
}
_COMBINED = re.compile(r"([CMS])-(.+)\Z", re.IGNORECASE | re.DOTALL)
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,2})\Z")
PASTE_START, PASTE_END = "\x1b[200~", "\x1b[201~"


def key(name: str) -> str:
    """What pressing the key called `name` sends: Enter, Up, F5, C-c, M-x, S-Tab or one character."""
    combined = _COMBINED.match(name)
    if combined is not None:
        return _combination(combined[1].upper(), combined[2], name)
    if name.lower() in _NAMED:
        return _NAMED[name.lower()]
    if len(name) == 1:
        return name
    raise InvalidRequest(f"{name!r} is not a key: use Enter, Tab, Escape, Up, F1, C-c, M-x … or one character.")


def _combination(modifier: str, base: str, name: str) -> str:
    if modifier == "M":
        return "\x1b" + key(base)
    if modifier == "S":
        return "\x1b[Z" if base.lower() == "tab" else key(base).upper() if len(base) == 1 else key(base)
    if base.lower() == "space":
        return "\0"
    if len(base) == 1 and "@" <= base.upper() <= "_":
        return chr(ord(base.upper()) & 0x1F)
    raise InvalidRequest(f"{name!r} is not a key: Control goes with a letter or one of @[\\]^_, as in C-c.")


def typed(literal: str, hexes: Sequence[str], keys: Sequence[str]) -> bytes:
    """Literal text, then bytes given in hex, then named keys."""
    data = literal.encode()
    for item in hexes:
        found = _HEX.match(item.strip())
        if found is None:
            raise InvalidRequest(f"{item!r} is not a byte in hex: write for example 1b or 0x1b.")
        data += bytes([int(found[1], 16)])
    return data + "".join(key(name) for name in keys).encode()


def pasted(text: str, *, bracketed: bool) -> bytes:
    """`text` as a paste; what would end the paste early is taken out of it."""
    if not bracketed:
        return text.encode()
    while PASTE_END in text:  # taking one out may leave another
        text = text.replace(PASTE_END, "")
    return f"{PASTE_START}{text}{PASTE_END}".encode()
