"""Getting a program a skill needs, when a person asked for it: one step, shown before, run without a shell."""

import contextlib
import hashlib
import os
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path

from openclaw.core.errors import InvalidRequest, StateError
from openclaw.skills.gate import command
from openclaw.skills.manifest import Installer
from openclaw.skills.settings import DependencySettings

MAX_DOWNLOAD = 256 << 20
TIMEOUT = 900.0
_CHUNK = 1 << 16


def run(step: Installer, how: DependencySettings, tools: Path, environ: Mapping[str, str]) -> str:
    """Runs one step; gives a line that says what was done. `tools` is where downloads of this skill go."""
    if step.kind == "download":
        return f"saved {fetch(step, tools)}"
    line = command(step, how)
    try:
        done = subprocess.run(line, env=dict(environ), stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    except FileNotFoundError as error:
        raise InvalidRequest(f"{line[0]} is not installed: get it first, or choose another step") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidRequest(f"`{' '.join(line)}` did not finish: {error}") from error
    if done.returncode != 0:
        raise InvalidRequest(f"`{' '.join(line)}` failed with code {done.returncode}")
    return f"ran {' '.join(line)}"


def fetch(step: Installer, tools: Path) -> Path:
    """Downloads a step's file and keeps it only when its checksum is the one the skill names."""
    import urllib.error  # slow to import, and few skills need it
    import urllib.request

    if not step.sha256:
        raise InvalidRequest(f"{step.url} has no checksum: look at it and download it yourself")
    target = tools / step.target_dir / Path(urllib.request.url2pathname(step.url.split("?")[0])).name
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    digest = hashlib.sha256()
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with urllib.request.urlopen(step.url, timeout=60) as answer, temporary.open("xb") as file:  # noqa: S310
            total = 0
            while chunk := answer.read(_CHUNK):
                total += len(chunk)
                if total > MAX_DOWNLOAD:
                    raise InvalidRequest(f"{step.url} is larger than {MAX_DOWNLOAD >> 20} MiB")
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != step.sha256:
            raise InvalidRequest(f"{step.url} is not the file the skill names: its sha256 is {digest.hexdigest()}")
        temporary.replace(target)
    except (urllib.error.URLError, ValueError) as error:
        raise InvalidRequest(f"cannot download {step.url}: {error}") from error
    except OSError as error:
        raise StateError(f"cannot save {target}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return target
