"""Ours and its peers in one run: a turn from the command line, against the same model.

Run: python benchmarks/peers.py [--install DIR] [--rounds N]

`--install` puts OpenClaw (npm), nanobot-ai and hermes-agent into directories of their own below DIR first, or uses what
is there. A peer that is not installed, or does not answer, says so. CPU is of the command and its children; every
round asks each of them once, so that what else the machine does falls on all.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from lean import WORDS, ModelProcess
from msgspec import Struct, field

from openclaw.testing import TemporaryHome

PATIENCE = 120
OPENCLAW = "openclaw/node_modules/.bin/openclaw"
SAID = " ".join(WORDS.split()[:4])
"""How the model's answer begins."""


class Peer(Struct):
    """A program that answers a message on the command line, in a home of its own."""

    name: str
    command: list[str]
    environ: dict[str, str]
    cwd: Path
    problem: str = ""
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def ask(self) -> None:
        """Asks once, unless it failed before."""
        if self.problem:
            return
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        try:
            done = subprocess.run(
                self.command,
                env=self.environ,
                cwd=self.cwd,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.problem = f"it did not answer: {error}"
            return
        took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if SAID not in " ".join(done.stdout.split()):
            self.problem = f"it did not answer: {(done.stderr or done.stdout).strip()[-300:]!r}"
            return
        self.wall.append(took)
        self.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _environ(home: Path, **more: str) -> dict[str, str]:
    path = os.environ.get("PATH", os.defpath)
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", **more}


def _write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def _ours(root: Path, model: ModelProcess) -> Peer:
    home = TemporaryHome(root)
    home.configure(model.settings())
    command = [sys.executable, "-m", "openclaw", "agent", "--local", "--message", "hello"]
    return Peer("ours", command, home.environ, home.root)


def _openclaw(root: Path, model: ModelProcess, installed: Path | None) -> Peer:
    program = installed / OPENCLAW if installed else None
    _write(root / ".openclaw/openclaw.json", model.settings())
    command = [_found(program, "openclaw"), "agent", "--local", "--session-id", "bench", "--message", "hello"]
    return Peer("OpenClaw", command, _environ(root), root)


def _nanobot(root: Path, model: ModelProcess, installed: Path | None) -> Peer:
    program = installed / "nanobot/bin/nanobot" if installed else None
    providers = {"custom": {"apiKey": "mock-key-123456", "apiBase": model.url}}
    agents = {"defaults": {"model": "mock", "provider": "custom", "workspace": str(root / "workspace")}}
    _write(root / ".nanobot/config.json", {"providers": providers, "agents": agents})
    return Peer("nanobot-ai", [_found(program, "nanobot"), "agent", "-m", "hello"], _environ(root), root)


def _hermes(root: Path, model: ModelProcess, installed: Path | None) -> Peer:
    program = installed / "hermes/bin/hermes" if installed else None
    settings = {"model": {"default": "mock", "provider": "custom", "base_url": model.url}}
    _write(root / ".hermes/config.yaml", settings)  # JSON is YAML
    environ = _environ(root, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="mock-key-123456")
    return Peer("hermes-agent", [_found(program, "hermes"), "chat", "-Q", "-q", "hello"], environ, root)


def _found(installed: Path | None, name: str) -> str:
    """The program of a peer: in the directory given, or on the PATH outside of our own environment."""
    if installed is not None and installed.exists():
        return str(installed)
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(part for part in os.environ.get("PATH", "").split(os.pathsep) if part != own)
    return shutil.which(name, path=path) or ""


def install(directory: Path) -> None:
    """Installs the peers, each in a directory of its own; one that cannot be installed is left out."""
    for package, name in (("nanobot-ai", "nanobot"), ("hermes-agent", "hermes")):
        if not (directory / name).exists():
            made = subprocess.run([sys.executable, "-m", "venv", str(directory / name)], check=False)
            pip = [str(directory / name / "bin/pip"), "install", "--quiet", package]
            if made.returncode or subprocess.run(pip, check=False, stderr=subprocess.DEVNULL).returncode:
                print(f"{package} cannot be installed here")
    if not (directory / "openclaw").exists():
        (directory / "openclaw").mkdir(parents=True)
        npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", "openclaw"]
        if shutil.which("npm") is not None:
            subprocess.run(npm, cwd=directory / "openclaw", check=False)
    if not (directory / OPENCLAW).exists():  # npm calls it a success where node is too old for it
        print("openclaw cannot be installed here: it needs a newer node")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--install", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if chosen.install is not None:
        install(chosen.install)
    with tempfile.TemporaryDirectory() as root, ModelProcess() as model:
        places = [Path(root) / name for name in ("ours", "openclaw", "nanobot", "hermes")]
        for place in places:
            place.mkdir()
        peers = [_ours(places[0], model)]
        for make, place in zip((_openclaw, _nanobot, _hermes), places[1:], strict=True):
            peer = make(place, model, chosen.install)
            peer.problem = "" if peer.command[0] else "it is not installed (--install DIR)"
            peers.append(peer)
        for number in range(chosen.rounds + 1):
            for peer in peers:
                peer.ask()
                if number == 0:  # what a first start makes is made once
                    peer.wall.clear()
                    peer.cpu.clear()
    ours = peers[0]
    print(f"{'':<14} {'CPU s':>7} {'wall s':>7} {'times ours (CPU)':>17}")
    for peer in peers:
        if peer.problem or not peer.cpu:
            print(f"{peer.name:<14} {peer.problem}")
            continue
        times = statistics.median(peer.cpu) / statistics.median(ours.cpu) if ours.cpu else 0.0
        print(
            f"{peer.name:<14} {statistics.median(peer.cpu):>7.2f} {statistics.median(peer.wall):>7.2f} {times:>16.1f}x"
        )


if __name__ == "__main__":
    main()
