"""Programs a skill needs: got only when asked for, and only what was named."""

import hashlib

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.skills.install import fetch, run
from openclaw.skills.manifest import Installer
from openclaw.skills.settings import DependencySettings
from tests.skills.loopback import serving

DATA = b"#!/bin/sh\necho tool\n"
SHA = hashlib.sha256(DATA).hexdigest()


def download(address: str, sha256: str = SHA, target_dir: str = "") -> Installer:
    url = f"{address}/tool.sh?x=1"
    return Installer(id="d", kind="download", url=url, sha256=sha256, target_dir=target_dir)


def test_a_download_with_the_right_checksum_is_kept(tmp_path):
    with serving({"/tool.sh": DATA}) as address:
        path = fetch(download(address, target_dir="bin"), tmp_path)
    assert path == tmp_path / "bin" / "tool.sh"
    assert path.read_bytes() == DATA


@pytest.mark.parametrize(
    ("page", "said"), [(b"something else", "not the file the skill names"), (404, "cannot download")]
)
def test_a_download_that_is_something_else_is_not_kept(tmp_path, page, said):
    with serving({"/tool.sh": page}) as address, pytest.raises(InvalidRequest, match=said):
        fetch(download(address), tmp_path)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_without_a_checksum_nothing_is_downloaded(tmp_path):
    with serving({"/tool.sh": DATA}) as address, pytest.raises(InvalidRequest, match="no checksum"):
        fetch(download(address, sha256=""), tmp_path)


def test_a_step_is_run_as_it_was_shown(tmp_path):
    brew = tmp_path / "brew"
    brew.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\n')
    brew.chmod(0o755)
    step = Installer(id="b", kind="brew", formula="ffmpeg")
    assert run(step, DependencySettings(), tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"}) == "ran brew install ffmpeg"
    assert (tmp_path / "said").read_text() == "install ffmpeg\n"


def test_a_step_that_fails_says_so(tmp_path):
    step = Installer(id="b", kind="uv", package="x")
    with pytest.raises(InvalidRequest, match="is not installed"):
        run(step, DependencySettings(), tmp_path, {"PATH": str(tmp_path)})
    (tmp_path / "uv").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "uv").chmod(0o755)
    with pytest.raises(InvalidRequest, match="failed with code 3"):
        run(step, DependencySettings(), tmp_path, {"PATH": f"{tmp_path}:/usr/bin:/bin"})
