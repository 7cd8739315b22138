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
from openclaw.security.effects.consent import ApprovedPlan
from openclaw.security.effects.places import ProtectedPlaces
from openclaw.security.external import SOURCE_NAMES, Source, wrap_external_content
from openclaw.security.file_labels import LabelledFiles, TrustedPaths
from openclaw.security.gates import ExecGate, LabelGate
from openclaw.security.label_context import Egress, JobLabels, LabelContext
from openclaw.security.labels import CircuitBreaker, build_table, copied_origin
from openclaw.security.note_marks import note_origins
from openclaw.security.redaction import Redactor
from openclaw.security.run_labels import RunLabels
from openclaw.security.settings import EgressBudget, SecuritySettings
from openclaw.security.undo import MB, JournalBudget, UndoJournal
from openclaw.storage.links import real_path
from openclaw.workspace.files import ALWAYS, WHEN_PRESENT

PACKAGE = Path(openclaw.__file__).parent


def open_journal(state: Path, settings: SecuritySettings, clock: Clock) -> UndoJournal:
    undo = settings.undo
    budget = JournalBudget(enabled=undo.enabled, total=undo.max_mb * MB, file=undo.max_file_mb * MB, days=undo.days)
    return UndoJournal(state / "undo", clock, budget)


def labelled_files(state: Path, *, sees_work: bool = False) -> LabelledFiles:
    return LabelledFiles(state / "labels" / "files.jsonl", sees_work=sees_work)


def files_of_programs(state: Path) -> LabelledFiles:
    """When other programs worked in a workspace: their files carry no label, and are not the owner's either."""
    return LabelledFiles(state / "labels" / "programs.jsonl")


class LabelService:
    """Labels what a run reads and writes; one for the process."""

    def __init__(
        self,
        state: Path,
        home: Path,
        settings: Live[SecuritySettings],
        clock: Clock,
        config: Path | None = None,
    ) -> None:
        self._home = home
        self._clock = clock
        self._redactor = Redactor()
        self._jobs: dict[str, JobLabels] = {}
        self._breakers: dict[str, CircuitBreaker] = {}
        self.files = labelled_files(state, sees_work=True)
        self._state = state
        self._real_state = real_path(state)
        self._config = real_path(config or state / "openclaw.json")
        self._reals: dict[Path, str] = {}
        self._egress: dict[str, Egress] = {}
        self._plans: dict[str, ApprovedPlan] = {}
        self._places: dict[tuple[str, str], ProtectedPlaces] = {}
        self._live = settings
        self._configure(settings.current)

    def _configure(self, settings: SecuritySettings) -> None:
        self._settings = settings
        self._breakers.clear()
        self._journal = open_journal(self._state, settings, self._clock)
        external = settings.external_content
        self._table = build_table(external.table, external.taint_tools)
        self._open_table = build_table(external.table, external.taint_tools, local=True)

    def know(self, secrets: Iterable[Secret]) -> None:
        """Adds secrets to redact from tool results."""
        self._redactor.know(secrets)

    def of_job(self, name: str, command: str) -> tuple[Origin, ...]:
        """The origins of a background command's output."""
        job = self._jobs.get(name)
        if job is None:  # it ended before its call did: what it read is not known yet
            return (make_origin("external", f"exec {command}"),)
        seen = self.labels(Path("/")).job_origins(job, "")
        job.close()
        return seen

    def of_file(self, path: Path) -> tuple[Origin, ...]:
        """The origins of a file that becomes a request by itself."""
        real = real_path(path)
        return tuple(copied_origin(each, real) for each in self.files.of(real))

    def labels(
        self,
        workspace: Path,
        *,
        trusted: bool = True,
        place: str = "",
        boxes: Path | None = None,
        skills: Mapping[str, tuple[Origin, ...]] | None = None,
        origins: Sequence[Origin] = (),
        earlier: Sequence[Origin] = (),
        said: Sequence[Message] = (),
        path: str = os.defpath,
        egress: EgressBudget = EgressBudget(),  # noqa: B008 (immutable)
        agent_id: str = "",
        fresh: bool = True,
        begins: str = "",
    ) -> RunLabels:
        """The labels of one run. `trusted` says whose words the workspace holds; `place` is a directory of the owner's
        where he is, `boxes` where sandboxes keep files, `path` where programs are, `earlier` what this conversation
        read before. A run that no person asked for, so not a `fresh` one, goes on with what the last one may still
        send out. What was approved with a plan ends where other work `begins` in its session."""
        self._plans.pop(begins, None)
        if self._settings is not self._live.current:
            self._configure(self._live.current)
        external = self._settings.external_content
        own = [workspace, PACKAGE, *(self._home / Path(each) for each in external.trusted_paths)]
        own += [Path(place)] if place else []
        own += [boxes] if boxes is not None else []
        # As they were first seen, so that replacing one with a link later does not make its target trusted.
        for each in own:
            if each not in self._reals:
                self._reals[each] = real_path(each.expanduser())
        reals = [self._reals[each] for each in own]
        # Workspace files that are part of the prompt bring their labels with them.
        listed = self.files.of(*(f"{reals[0]}/{name}" for name in (*ALWAYS, *WHEN_PRESENT)))
        notes = [note for name in ("MEMORY.md", "memory.md") if os.path.exists(note := f"{reals[0]}/{name}")]  # noqa: PTH110
        spent = self._egress.get(agent_id)
        if fresh or spent is None:
            spent = self._egress[agent_id] = Egress(egress.requests, egress.bytes)
        protected = self._places.get((path, reals[0]))
        if protected is None:
            protected = self._places[path, reals[0]] = ProtectedPlaces(
                home=real_path(self._home),
                state=self._real_state,
                config=self._config,
                programs=tuple(each for each in path.split(os.pathsep) if each),
                open=(reals[0], f"{self._real_state}/sandboxes"),
            )
        if not trusted:  # its files are in the prompt
            origins = (*origins, make_origin("external", f"the workspace {workspace}, which is not trusted"))
        known = LabelContext(
            files=self.files,
            places=TrustedPaths(
                own=reals if trusted else reals[1:],
                package=reals[1],
                untrusted=external.untrusted_paths,
                directories=skills or {},
            ),
            journal=self._journal,
            redactor=self._redactor,
            jobs=self._jobs,
            protected=protected,
            egress=spent,
        )
        here = merge_origins(origins, listed, *map(note_origins, notes))
        return RunLabels(known, origins=here, earlier=earlier, said=said)

    def gate(self, agent_id: str, inner: ExecGate, labels: RunLabels) -> LabelGate:
        breaker = self._breakers.get(agent_id)
        if breaker is None:
            limits = self._settings.breaker
            breaker = CircuitBreaker({"deletes": limits.deletes_per_minute, "sends": limits.sends_per_minute})
            self._breakers[agent_id] = breaker
        return LabelGate(inner, labels, self._table, self._open_table, breaker, self._clock, plans=self._plans)


def wrap_untrusted(content: str, source: str, *, warn: bool = True) -> str:
    """`content` wrapped under a fresh id; an unlisted source becomes `unknown`."""
    known: Source = source if source in SOURCE_NAMES else "unknown"
    return wrap_external_content(content, known, marker_id=secrets.token_hex(8), include_warning=warn)
