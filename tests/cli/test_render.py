"""Text for people at a terminal."""

import io
import os

import pytest

from openclaw.cli.render import fold


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_break_between_words_and_only_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "COLUMNS", "40")
    asked = "Why you are asked: untrusted content was read before it, from a page"
    text = f"{asked}\n    indented words stay below each other, all of them"
    folded = fold(text, Screen())
    assert all(len(line) <= 40 for line in folded.split("\n"))
    assert " ".join(folded.split()) == " ".join(text.split())
    assert all(line.startswith("    ") for line in folded.split("\n")[2:])
    assert fold(text, io.StringIO()) == text
