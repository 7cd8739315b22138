"""The hooks of this installation, as they are found and judged: for the gateway and for `openclaw hooks` alike."""

import shutil
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from openclaw.config import keypath, tree
from openclaw.config.load import LoadedConfig
from openclaw.core.errors import OpenClawError
from openclaw.hooks.internal.discover import BUNDLED, HookRoot, Matter, find
from openclaw.hooks.internal.gate import HookMachine, HookVerdict, judge
from openclaw.hooks.internal.lock import AcceptedHooks
from openclaw.hooks.internal.record import HookDirectory, HookProblem
from openclaw.hooks.internal.settings import InternalHooksSettings
from openclaw.turns.agents import agent_ids

if TYPE_CHECKING:
    from openclaw.gateway.surroundings import Environment


class ListedHook(Struct, frozen=True, kw_only=True):
    """A hook with everything that decides whether it runs."""

    hook: HookDirectory
    verdict: HookVerdict
    objection: str = ""
    """Why nobody vouches for it as it is now."""

    @property
    def runs(self) -> bool:
        return self.verdict.runs and not self.objection

    @property
    def reasons(self) -> tuple[str, ...]:
        # Who is not wanted anyway need not be accepted first.
        held = (self.objection,) if self.objection and self.verdict.chosen else ()
        return (*self.verdict.reasons, *held)


class HookList(Struct, frozen=True, kw_only=True):
    """Every hook, and what was passed over."""

    items: tuple[ListedHook, ...]
    diagnostics: tuple[HookProblem, ...] = ()


def workspaces(loaded: LoadedConfig, surroundings: "Environment") -> dict[str, Path]:
    """By agent, the directory of its files."""
    from openclaw.gateway.surroundings import workspace_of

    agents = loaded.config.agents
    return {agent: workspace_of(agents, agent, surroundings) for agent in agent_ids(agents)}


def look(loaded: LoadedConfig, surroundings: "Environment", ledger: AcceptedHooks) -> HookList:
    """A look at all the places hooks come from. Nothing is run, and nothing is accepted by looking."""
    settings: InternalHooksSettings = loaded.config.hooks.internal
    found = find(roots(loaded, surroundings), read_matter)
    machine = _machine(loaded)
    items = [
        ListedHook(hook=hook, verdict=judge(hook, settings, machine), objection=ledger.objection(hook))
        for hook in found.hooks
    ]
    return HookList(items=tuple(items), diagnostics=found.diagnostics)


def roots(loaded: LoadedConfig, surroundings: "Environment") -> list[HookRoot]:
    """Where hooks are looked for; what comes later replaces what came before, but a workspace only adds."""
    home = surroundings.home
    extra = [_expanded(text, surroundings) for text in loaded.config.hooks.internal.load.extra_dirs]
    own = dict.fromkeys(path / "hooks" for path in workspaces(loaded, surroundings).values())
    return [
        HookRoot(path=BUNDLED, source="openclaw-bundled"),
        *(HookRoot(path=path, source="openclaw-extra") for path in extra),
        HookRoot(path=home.state / "hooks", source="openclaw-managed"),
        *(HookRoot(path=path, source="openclaw-workspace") for path in own),
    ]


def read_matter(text: str) -> Matter:
    """The front matter of a HOOK.md, read with the care that skills are read with."""
    from openclaw.skills.frontmatter import read, unpacked

    matter = read(text)
    metadata = unpacked(matter.fields.get("metadata"))
    ours = unpacked(metadata.get("openclaw"))
    return Matter(fields=matter.fields, ours={**ours, "requires": unpacked(ours.get("requires"))}, notes=matter.notes)


def _expanded(text: str, surroundings: "Environment") -> Path:
    if text == "~" or text.startswith("~/"):
        return surroundings.home_dir / text[2:]
    return surroundings.home.state / text  # an absolute path stays what it is


def _machine(loaded: LoadedConfig) -> HookMachine:
    path = loaded.variables.get("PATH")

    @cache
    def has_bin(name: str) -> bool:
        return shutil.which(name, path=path) is not None

    def has_config(where: str) -> bool:
        try:
            found: Any = tree.find(loaded.raw, keypath.parse(where))
        except (OpenClawError, LookupError):
            return False
        return bool(found)

    return HookMachine(
        platform="linux" if sys.platform.startswith("linux") else sys.platform,
        env=frozenset(name for name, value in loaded.variables.items() if value),
        has_bin=has_bin,
        has_config=has_config,
    )
