"""Where skills are looked for, highest precedence first."""

from pathlib import Path

from msgspec import Struct

from openclaw.skills.record import Source

GROUP = "openclaw.skills"


class SkillRoot(Struct, frozen=True, kw_only=True):
    """A directory with skills."""

    source: Source
    path: Path
    owned: bool = True
    """Whether what lies there was put there by the owner, and not by whoever wrote a repository or a package."""
    contained: bool = True
    """Whether links must stay inside."""
    plugin: str = ""


class PluginDirectory(Struct, frozen=True):
    """The skills of one enabled plugin."""

    plugin: str
    path: Path


class SkillRoots(Struct, frozen=True, kw_only=True):
    """What this process knows about where it stands."""

    home: Path
    state: Path
    workspace: Path
    cwd: Path
    workspace_trusted: bool = True
    """Whether the workspace is the owner's own, and not somebody's repository."""
    given: tuple[Path, ...] = ()
    """Named on the command line."""
    extra: tuple[Path, ...] = ()
    packages: tuple[Path, ...] = ()
    plugins: tuple[PluginDirectory, ...] = ()

    @property
    def managed(self) -> Path:
        return self.state / "skills"


def bundled() -> Path:
    """The skills that come with the program."""
    return Path(__file__).parent / "bundled"


def roots(places: SkillRoots) -> tuple[SkillRoot, ...]:
    """Every root in order of precedence; a directory that is two of them counts as the owner's."""
    found = [
        *(SkillRoot(source="cli", path=path) for path in places.given),
        SkillRoot(source="openclaw-workspace", path=places.workspace / "skills", owned=places.workspace_trusted),
        *(
            SkillRoot(source="agents-skills-project", path=places.cwd / name / "skills", owned=False)
            for name in (".agents", ".pi")
        ),
        SkillRoot(source="agents-skills-personal", path=places.home / ".agents" / "skills", contained=False),
        SkillRoot(source="agents-skills-personal", path=places.home / ".pi" / "agent" / "skills", contained=False),
        *(SkillRoot(source="package", path=path, owned=False) for path in places.packages),
        *(SkillRoot(source="plugin", path=item.path, plugin=item.plugin) for item in places.plugins),
        SkillRoot(source="openclaw-managed", path=places.managed, contained=False),
        SkillRoot(source="openclaw-bundled", path=bundled()),
        *(SkillRoot(source="openclaw-extra", path=path, owned=False) for path in places.extra),
    ]
    own = {root.path.resolve() for root in found if root.owned}
    return tuple(root for root in found if root.owned or root.path.resolve() not in own)


def expanded(text: str, home: Path, cwd: Path) -> Path:
    """A path from the settings: `~` is the home directory, anything relative starts at `cwd`."""
    return home / text[2:] if text.startswith(("~/", "~\\")) else home if text == "~" else cwd / text


def package_directories() -> tuple[Path, ...]:
    """The skills of installed packages, by their entry points; nothing of a package is imported to find them."""
    from importlib.machinery import PathFinder  # slow to import, and asked for once
    from importlib.metadata import entry_points

    found: list[Path] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        top, *rest = point.value.partition(":")[0].strip().split(".")
        try:
            spec = PathFinder.find_spec(top)
        except (ImportError, ValueError):
            continue
        for place in (spec.submodule_search_locations if spec else None) or ():
            directory = Path(place, *rest)
            found.append(directory / "skills" if (directory / "skills").is_dir() else directory)
    return tuple(dict.fromkeys(found))
