"""A place to put skills into and to look for them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openclaw.extensions.gate import MachineFacts
from openclaw.security.install_scan import scan_files
from openclaw.security.label_service import files_of_programs, labelled_files
from openclaw.skills.accepted import AcceptedSkills
from openclaw.skills.find import SkillRoots
from openclaw.skills.gate import ListedSkill, SkillList
from openclaw.skills.settings import SkillsSettings
from openclaw.skills.store import SkillStore

LATER = 10_000.0
"""So much later than now that no file counts as just changed."""


def skill_text(name: str, description: str = "Does a thing.", more: str = "", body: str = "Do it.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n\n{body}\n"


def put(directory: Path, name: str = "", description: str = "Does a thing.", **rest: str) -> Path:
    """A skill in `directory`; gives its SKILL.md."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "SKILL.md"
    path.write_text(skill_text(name or directory.name, description, **rest), encoding="utf-8")
    return path


class Bench:
    """A home, a workspace and a working directory, and looking for skills in them."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.home = top / "home"
        self.state = self.home / ".openclaw"
        self.workspace = self.state / "workspace"
        self.cwd = top / "project"
        for path in (self.workspace, self.cwd):
            path.mkdir(parents=True)
        self.time = max(path.stat().st_mtime for path in (self.home, self.cwd)) + LATER
        self.library = SkillStore(
            AcceptedSkills(self.state),
            scan_files,
            lambda: self.time,
            (labelled_files(self.state).of, files_of_programs(self.state).of),
        )
        self.bins: set[str] = set()
        self.env: set[str] = set()
        self.config: set[str] = set()
        self.plugins: tuple[str, ...] = ()

    @property
    def mine(self) -> Path:
        return self.workspace / "skills"

    @property
    def personal(self) -> Path:
        return self.home / ".agents" / "skills"

    def places(self, **more: Any) -> SkillRoots:
        return SkillRoots(home=self.home, state=self.state, workspace=self.workspace, cwd=self.cwd, **more)

    @property
    def machine(self) -> MachineFacts:
        return MachineFacts(
            platform="linux",
            env=self.env,
            has_bin=self.bins.__contains__,
            has_config=self.config.__contains__,
            plugins=self.plugins,
        )

    def look(
        self,
        settings: SkillsSettings | None = None,
        *,
        first_use: bool = True,
        allowlist: tuple[str, ...] | None = None,
        link_targets: tuple[Path, ...] = (),
        **places: Any,
    ) -> SkillList:
        """A look without the shipped skills, which have tests of their own."""
        shelf = self.library.look(
            self.places(**places),
            settings or SkillsSettings(),
            self.machine,
            first_use=first_use,
            allowlist=allowlist,
            link_targets=link_targets,
        )
        return SkillList(
            items=tuple(item for item in shelf.items if not item.skill.bundled),
            shadowed=shelf.shadowed,
            collisions=shelf.collisions,
            diagnostics=shelf.diagnostics,
            edited=shelf.edited,
        )

    def one(self, name: str, settings: SkillsSettings | None = None, **more: Any) -> ListedSkill:
        return self.look(settings, **more).get(name)

    def age(self) -> None:
        """Lets a moment pass, so that what was written counts as settled."""
        self.time += 1


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def names(shelf: SkillList) -> list[str]:
    return [item.skill.name for item in shelf.items]


def usable(shelf: SkillList) -> list[str]:
    return [item.skill.name for item in shelf.usable]


def environment_of(home: Path, **more: str) -> Mapping[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], "OPENCLAW_NO_LOCAL_MODELS": "1", **more}
