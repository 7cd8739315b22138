"""What is committed of the built page is what its sources give."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from openclaw.gateway.http.pages import BUILT

UI = Path(__file__).parent.parent.parent / "ui"


def test_the_page_was_built_from_the_sources_as_they_are() -> None:
    built_from = json.loads((BUILT / "sources.json").read_text())
    names = [f"src/{path.name}" for path in (UI / "src").iterdir()] + ["build.mjs", "package.json", "package-lock.json"]
    now = {name: hashlib.sha256((UI / name).read_bytes()).hexdigest() for name in names}
    assert built_from == now, "run npm run build in ui/ and commit what it gives"


@pytest.mark.system
def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (UI / "node_modules" / "esbuild").is_dir():
        pytest.skip("needs node and npm ci in ui/")
    subprocess.run([node, "build.mjs", str(tmp_path / "out")], cwd=UI, check=True, capture_output=True)

    def everything(place: Path) -> dict[str, bytes]:
        return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}

    assert everything(tmp_path / "out") == everything(BUILT)
