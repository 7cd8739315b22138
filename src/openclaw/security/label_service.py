"""Builds the label tracking of a run: its `RunLabels`, the `LabelGate` that reads them, and the undo journal."""

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import openclaw
from openclaw.core.clock import Clock
from openclaw.core.messages import Message
from openclaw.core.secret import Secret
from openclaw.core.settings import Live
from openclaw.core.text import Origin, make_origin, merge_origins
from openclaw.security.external import SOURCE_NAMES, Source, wrap_external_content
from openclaw.security.file_labels import LabelledFiles, TrustedPaths
from openclaw.security.gates import ExecGate, LabelGate
from openclaw.security.labels import CircuitBreaker, build_table, may_fetch
from openclaw.security.note_marks import note_origins
from openclaw.security.redaction import Redactor
from openclaw.security.run_labels import LabelContext, RunLabels
from openclaw.security.settings import SecuritySettings
from openclaw.security.undo import MB, JournalBudget, UndoJournal
from openclaw.workspace.files import ALWAYS, WHEN_PRESENT

PACKAGE = Path(openclaw.__file__).parent


def open_journal(state: Path, settings: SecuritySettings, clock: Clock) -> UndoJournal:
    undo = settings.undo
    budget = JournalBudget(enabled=undo.enabled, total=undo.max_mb * MB, file=undo.max_file_mb * MB, days=undo.days)
    return UndoJournal(state / "undo", clock, budget)


def labelled_files(state: Path) -> LabelledFiles:
    return LabelledFiles(state / "labels" / "files.jsonl")


def files_of_programs(state: Path) -> LabelledFiles:
    """When other programs worked in a workspace: their files carry no label, and are not the owner's either."""
    return LabelledFiles(state / "labels" / "programs.jsonl")


class LabelService:
    """Labels what a run reads and writes; one for the process."""

    def __init__(self, state: Path, home: Path, settings: Live[SecuritySettings], clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._redactor = Redactor()
        self._jobs: dict[str, tuple[Origin, ...]] = {}
        self._breakers: dict[str, CircuitBreaker] = {}
        self.files = labelled_files(state)
        self._state = state
        self._reals: dict[Path, str] = {}
        self._live = settings
        self._configure(settings.current)

    def _configure(self, settings: SecuritySettings) -> None:
        self._settings = settings
        self._breakers.clear()
        self._journal = open_journal(self._state, settings, self._clock)
        external = settings.external_content
        self._table = build_table(external.table, external.taint_tools)

    def know(self, secrets: Iterable[Secret]) -> None:
        """Adds secrets to redact from tool results."""
        self._redactor.know(secrets)

    def of_job(self, name: str, command: str) -> tuple[Origin, ...]:
        """The origins of a background command's output."""
        found = self._jobs.get(name)
        if found is None and may_fetch(command):
            return (make_origin("external", f"exec {command}"),)
        return found or ()

    def labels(
        self,
        workspace: Path,
        *,
        trusted: bool = True,
        place: str = "",
        boxes: Path | None = None,
        skills: Mapping[str, tuple[Origin, ...]] | None = None,
        origins: Sequence[Origin] = (),
        said: Sequence[Message] = (),
    ) -> RunLabels:
        """The labels of one run. `trusted` says whose words the workspace holds; `place` is a directory of the owner's
        where he is, `boxes` where sandboxes keep their files."""
        if self._settings is not self._live.current:
            self._configure(self._live.current)
        external = self._settings.external_content
        own = [workspace, PACKAGE, *(self._home / Path(each) for each in external.trusted_paths)]
        own += [Path(place)] if place else []
        own += [boxes] if boxes is not None else []
        # As they were first seen, so that replacing one with a link later does not make its target trusted.
        for path in own:
            if path not in self._reals:
                self._reals[path] = os.path.realpath(path.expanduser())
        reals = [self._reals[path] for path in own]
        # Workspace files that are part of the prompt bring their labels with them.
        listed = self.files.of(*(f"{reals[0]}/{name}" for name in (*ALWAYS, *WHEN_PRESENT)))
        notes = [note for name in ("MEMORY.md", "memory.md") if os.path.exists(note := f"{reals[0]}/{name}")]  # noqa: PTH110
        if not trusted:  # its files are in the prompt
            origins = (*origins, make_origin("external", f"the workspace {workspace}, which is not trusted"))
        trusted_roots = reals if trusted else reals[1:]
        known = LabelContext(
            files=self.files,
            places=TrustedPaths(own=trusted_roots, untrusted=external.untrusted_paths, directories=skills or {}),
            journal=self._journal,
            redactor=self._redactor,
            jobs=self._jobs,
        )
        return RunLabels(known, origins=merge_origins(origins, listed, *map(note_origins, notes)), said=said)

    def gate(self, agent_id: str, inner: ExecGate, labels: RunLabels) -> LabelGate:
        breaker = self._breakers.get(agent_id)
        if breaker is None:
            limits = self._settings.breaker
            breaker = CircuitBreaker({"deletes": limits.deletes_per_minute, "sends": limits.sends_per_minute})
            self._breakers[agent_id] = breaker
        return LabelGate(inner, labels, self._table, breaker, self._clock)


def wrap_untrusted(content: str, source: str, *, warn: bool = True) -> str:
    """`content` wrapped under a fresh id; an unlisted source becomes `unknown`."""
    known: Source = source if source in SOURCE_NAMES else "unknown"
    return wrap_external_content(content, known, marker_id=secrets.token_hex(8), include_warning=warn)
