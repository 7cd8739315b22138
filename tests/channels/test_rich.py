"""Markdown as text with styles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.rich import parse_markdown


def shown(markdown: str) -> tuple[str, list[tuple[str, str, str]]]:
    rich = parse_markdown(markdown)
    return rich.text, [(span.style, rich.text[span.start : span.end], span.extra) for span in rich.spans]


@pytest.mark.parametrize(
    ("markdown", "text", "spans"),
    [
        ("plain", "plain", []),
        ("**bold** and *it*", "bold and it", [("bold", "bold", ""), ("italic", "it", "")]),
        ("`a < b`", "a < b", [("code", "a < b", "")]),
        ("[page](https://x.org/a_b)", "page", [("link", "page", "https://x.org/a_b")]),
        ("# Head\n\ntext", "Head\n\ntext", [("bold", "Head", "")]),
        ("- one\n- two\n  - three", "• one\n• two\n  • three", []),
        ("3. one\n4. two", "3. one\n4. two", []),
        ("```py\nx = 1\n```\nend", "x = 1\n\nend", [("pre", "x = 1", "py")]),
        ("> said\n\nanswer", "said\n\nanswer", [("quote", "said", "")]),
        ("a ~~b~~", "a b", [("strike", "b", "")]),
        ("<b>not html</b>", "<b>not html</b>", []),
        ("**a _b_**", "a b", [("bold", "a b", ""), ("italic", "b", "")]),
    ],
)
def test_each_kind(markdown: str, text: str, spans: list[tuple[str, str, str]]) -> None:
    assert shown(markdown) == (text, spans)


def test_a_table_stays_in_columns() -> None:
    text, spans = shown("| name | n |\n|---|---|\n| heron | 12 |\n| eel | 3 |")
    assert text.splitlines() == ["name   n", "-----  --", "heron  12", "eel    3"]
    assert [style for style, _, _ in spans] == ["pre"]


@given(st.text(alphabet=st.sampled_from("ab *_`~[]()#>-|\n1.\\<&👍🏽é"), max_size=200))
def test_spans_are_inside_the_text_whatever_is_written(markdown: str) -> None:
    rich = parse_markdown(markdown)
    assert all(0 <= span.start < span.end <= len(rich.text) for span in rich.spans)
