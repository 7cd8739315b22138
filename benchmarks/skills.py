"""What 400 skills cost: looking cold and warm, and building the list, against `stat` of the same files.

Run: python benchmarks/skills.py
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from openclaw.extensions.gate import MachineFacts
from openclaw.security.install_scan import scan_files
from openclaw.skills.accepted import AcceptedSkills
from openclaw.skills.catalog import catalog_text, compose, line_of
from openclaw.skills.find import SkillRoots
from openclaw.skills.settings import LimitSettings, SkillsSettings
from openclaw.skills.store import SkillStore

ROUNDS = 7
SKILL = (
    """---
name: {name}
description: {name} does the things people ask for when they speak of {name}, and nothing else. {more}
metadata: {{"openclaw": {{"emoji": "🔧", "requires": {{"bins": ["git"]}}}}}}
---

# {name}

"""
    + "Look at the file first, then run the script, then say what changed.\n" * 30
)


def populate(top: Path) -> SkillRoots:
    """Two sources with 200 skills each, three files in every one."""
    places = SkillRoots(home=top, state=top / "state", workspace=top / "ws", cwd=top / "cwd")
    for number in range(400):
        name = f"skill-{number:03}"
        directory = (places.workspace / "skills" if number % 2 else places.managed) / name
        (directory / "scripts").mkdir(parents=True)
        (directory / "SKILL.md").write_text(SKILL.format(name=name, more="It is quick. " * (number % 9)))
        (directory / "scripts" / "run.py").write_text(f"print({number})\n" * 20)
        (directory / "reference.md").write_text("A table of words.\n" * 50)
    return places


def least(work: Callable[[], object]) -> float:
    """The least milliseconds of several runs; the least is what the machine's load disturbs least."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best * 1000


def stat_all(top: Path) -> int:
    count, pending = 0, [str(top)]
    while pending:
        with os.scandir(pending.pop()) as listing:
            for entry in listing:
                entry.stat(follow_symlinks=False)
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return count


def main() -> None:
    settings, limits = SkillsSettings(), LimitSettings()
    machine = MachineFacts(platform="linux", env=(), has_bin=lambda name: True, has_config=lambda path: False)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        places = populate(top)
        later = time.time() + 3_600  # a file that has just changed is read again, which is not what is measured

        def library() -> SkillStore:
            return SkillStore(AcceptedSkills(places.state), scan_files, lambda: later)

        began = time.perf_counter()
        library().look(places, settings, machine, first_use=True)
        first = (time.perf_counter() - began) * 1000
        cold = least(lambda: library().look(places, settings, machine, first_use=True))
        kept = library()
        shelf = kept.look(places, settings, machine, first_use=True)
        read = kept.hasher.files_read
        warm = least(lambda: kept.look(places, settings, machine, first_use=True))
        assert kept.hasher.files_read == read, "a warm look read a file"
        stats = least(lambda: (stat_all(places.workspace), stat_all(places.managed)))
        lines = [line_of(item, str(top)) for item in shelf.items]
        block = least(lambda: compose(lines, limits.max_skills_in_prompt, limits.max_skills_prompt_chars))
        taken = least(lambda: catalog_text(shelf.items, str(top), limits.max_skills_in_prompt, 30_000))
    print(f"{len(shelf.items)} skills, {read} files read cold, 0 read warm")
    print(f"{'':<34} {'ms':>8} {'x stat':>7}")
    for name, took in (
        ("stat of the same files", stats),
        ("first use (reads, scans, accepts)", first),
        ("cold (reads, verifies)", cold),
        ("warm (nothing changed)", warm),
        ("prompt block", block),
        ("list of an agent", taken),
    ):
        print(f"{name:<34} {took:>8.1f} {took / stats:>7.1f}")


if __name__ == "__main__":
    main()
