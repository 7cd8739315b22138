"""The page that lists every setting says what the schema says."""

from pathlib import Path

from openclaw.config.reference import render_reference

PAGE = Path(__file__).parents[2] / "docs" / "configuration-reference.md"


def test_the_reference_is_what_the_schema_says() -> None:
    again = "write it anew: python -m openclaw.config.reference docs/configuration-reference.md"
    assert PAGE.read_text(encoding="utf-8") == render_reference(), again


def test_it_names_nested_settings_with_their_defaults() -> None:
    text = render_reference()
    assert "- `tools.toolSearch` (boolean, default `true`): " in text
    assert "- `agents.list[].id` " in text and "- `channels.telegram.botToken` " in text
