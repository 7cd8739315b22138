"""Paths of pictures, pasted."""

from pathlib import Path

import pytest

from openclaw.cli.tui.composer import attachment, pasted_images
from openclaw.core.errors import InvalidRequest

PNG = b"\x89PNG\r\n\x1a\nrest"


def test_a_pasted_path_is_a_picture_only_when_it_is_one(tmp_path: Path) -> None:
    picture = tmp_path / "my cat.png"
    picture.write_bytes(PNG)
    other = tmp_path / "dog.JPG"
    other.write_bytes(PNG)
    assert pasted_images(str(picture), tmp_path) == (picture,)
    assert pasted_images(f"'{picture}' ", tmp_path) == (picture,)
    assert pasted_images(str(picture).replace(" ", "\\ "), tmp_path) == (picture,)
    assert pasted_images(picture.as_uri(), tmp_path) == (picture,)
    assert pasted_images(f"'{picture}' dog.JPG", tmp_path) == (picture, other)
    for text in ("look at dog.JPG", "nowhere.png", "", "it's dog.JPG", "a\n.png", "x" * 9000 + ".png"):
        assert pasted_images(text, tmp_path) == ()


def test_what_is_no_picture_is_refused_by_name(tmp_path: Path) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(PNG)
    assert attachment(picture)["mimeType"] == "image/png"
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(InvalidRequest, match=r"text\.png is not a PNG"):
        attachment(tmp_path / "text.png")
    with pytest.raises(InvalidRequest, match="cannot read"):
        attachment(tmp_path / "none.png")
    (tmp_path / "big.png").write_bytes(PNG + b"0" * 5 * 1024 * 1024)
    with pytest.raises(InvalidRequest, match="make it smaller"):
        attachment(tmp_path / "big.png")
