"""The directories to search for skills, highest precedence first."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from openclaw.extensions.find import package_places
from openclaw.skills.record import Source

GROUP = "openclaw.skills"
NPM_PREFIXES = ("NPM_CONFIG_PREFIX", "npm_config_prefix")


class SkillRoot(Struct, frozen=True, kw_only=True):
    """A directory with skills."""

    source: Source
    path: Path
    owned: bool = True
    """Whether its content is the owner's, and not from a repository or a package."""
    contained: bool = True
    """Whether links must stay inside."""
    plugin: str = ""


class PluginDirectory(Struct, frozen=True):
    """The skills of one enabled plugin."""

    plugin: str
    path: Path


class SkillRoots(Struct, frozen=True, kw_only=True):
    """The inputs of `roots`: home, state, workspace and configured directories."""

    home: Path
    state: Path
    workspace: Path
    cwd: Path
    given: tuple[Path, ...] = ()
    """Named on the command line."""
    extra: tuple[Path, ...] = ()
    packages: tuple[Path, ...] = ()
    plugins: tuple[PluginDirectory, ...] = ()

    @property
    def managed(self) -> Path:
        return self.state / "skills"


def bundled() -> Path:
    """The directory of the bundled skills."""
    return Path(__file__).parent / "bundled"


def roots(places: SkillRoots) -> tuple[SkillRoot, ...]:
    """All roots in order of precedence; a directory listed twice counts as the owner's if one of them does."""
    found = [
        *(SkillRoot(source="cli", path=path) for path in places.given),
        SkillRoot(source="openclaw-workspace", path=places.workspace / "skills"),
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


def node_directories(home: Path, variables: Mapping[str, str]) -> tuple[Path, ...]:
    """The skill directories of globally installed node packages: of bun, and of npm by its prefix or its program."""
    named = (variables.get(name) for name in NPM_PREFIXES)
    prefixes = [home / ".npm-global", *(Path(prefix) for prefix in named if prefix)]
    node = shutil.which("node", path=variables.get("PATH"))
    prefixes += [Path(node).resolve().parent.parent] if node else []
    modules = [home / ".bun/install/global/node_modules", *(prefix / "lib/node_modules" for prefix in prefixes)]
    found = (path for place in modules for pattern in ("[!.@]*/skills", "@*/*/skills") for path in place.glob(pattern))
    return tuple(dict.fromkeys(path for path in sorted(found) if path.is_dir()))


def package_directories() -> tuple[Path, ...]:
    """The skill directories of installed packages, by entry point; imports none of the packages."""
    found: list[Path] = []
    for _, places, module in package_places(GROUP):
        directories = [place / module for place in places]
        found += [each / "skills" if (each / "skills").is_dir() else each for each in directories]
    return tuple(dict.fromkeys(found))
