"""The labels of one run: which untrusted text its model has read, which each result adds, and where it is written.

Every result of every tool passes `after`, the one place where untrusted text is sanitised, wrapped and labelled.
"""

import asyncio
import os
import re
import secrets
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from openclaw.core.messages import Assistant, Image, Message, Text, User
from openclaw.core.sandbox import SANDBOX_HOME, RunsInSandbox, SandboxSpec, to_host_path, to_sandbox_path
from openclaw.core.secret import REDACTED
from openclaw.core.text import ActionKind, Origin, make_origin, merge_origins, neutralise
from openclaw.core.tool import Effects, Output, Tool, ToolContext
from openclaw.security.effects.command_facts import leaves, look_harmless, protected_by, secret_in
from openclaw.security.effects.forms import only_shows
from openclaw.security.effects.intent import asked_for
from openclaw.security.effects.opens import OpenWatch, names_in, others_directories
from openclaw.security.effects.places import ProtectedPlaces, name_place
from openclaw.security.effects.reach import may_fetch
from openclaw.security.external import (
    PLAIN_TOKENS,
    REMOVED_TOKEN,
    SOURCE_NAMES,
    Source,
    sanitize_external_text,
    unwrap,
    wrap_external_content,
)
from openclaw.security.file_labels import LabelledFiles, TrustedPaths, label_of
from openclaw.security.labels import (
    CallFacts,
    actions_of,
    composed_bytes,
    copied_origin,
    deletes,
    is_named,
    is_safe_to_send,
    is_verbatim,
    is_verbatim_result,
    message_origins,
    strings,
)
from openclaw.security.note_marks import is_note, mark_note, note_origins
from openclaw.security.redaction import Redactor, redact_found
from openclaw.security.shell import parse_shell
from openclaw.security.undo import UndoJournal
from openclaw.security.undo_plan import FileBefore

PATH_ARGUMENTS = ("path", "image", "images", "file", "files")
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/dev/", "/nix/")
"""System programs: naming one in a command reads no untrusted text."""
MOST = 200


# The files a call names.


def sandbox_of(tool: Tool, args: Mapping[str, Any]) -> SandboxSpec | None:
    """The sandbox a call runs in, which determines what its paths mean; None on the host."""
    if not isinstance(tool, RunsInSandbox) or tool.boxed is None:
        return None
    leaves = Effects.RUNS_CODE in tool.effects(args) and Effects.CONTAINED not in tool.effects(args)
    return None if leaves else tool.boxed.box


def command_directory(args: Mapping[str, Any], context: ToolContext, box: SandboxSpec | None = None) -> str:
    """The directory of a command, as a host path."""
    given = str(args.get("workdir") or "")
    if box is not None:
        return os.path.realpath(_outside(given or ".", box.workdir, box) or box.root)
    return os.path.realpath(context.workspace / _expanded(given))


def _outside(text: str, cwd: str, box: SandboxSpec) -> str | None:
    """The host path of a path inside a sandbox; None for files that exist only inside or belong to the system."""
    inside = SANDBOX_HOME + text[1:] if text == "~" or text.startswith("~/") else text
    return to_host_path(box, os.path.normpath(Path(cwd, inside)))


def argument_paths(args: Mapping[str, Any], context: ToolContext, box: SandboxSpec | None = None) -> list[str]:
    """The files in a call's path arguments, as absolute paths without links."""
    found: list[str] = []
    for name in PATH_ARGUMENTS:
        value = args.get(name)
        given = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
        found += [each for each in given if isinstance(each, str) and each.strip() and "\0" not in each]
    if box is not None:
        places = [_outside(each.strip(), box.workdir, box) for each in found]
        return [os.path.realpath(place) for place in places if place is not None]
    plain = [each.strip() for each in found]
    return [os.path.realpath(context.workspace / (_expanded(each) if each.startswith("~") else each)) for each in plain]


def command_files(command: str, cwd: str, box: SandboxSpec | None = None) -> list[str]:
    """The existing files among the words of a command line, including words inside quotes."""
    try:
        words = shlex.split(command.replace("\n", " ; "))
    except ValueError:
        words = command.split()
    pieces = [part for word in words for inner in word.split() for part in re.split(r"[=;&|<>()`\"']", inner) if part]
    pieces = [piece for piece in pieces if "\0" not in piece and len(piece) < 4096]
    if box is not None:
        places = [_outside(piece, to_sandbox_path(box, cwd) or box.workdir, box) for piece in pieces]
        found = [os.path.realpath(place) for place in places if place is not None]
    else:
        found = [os.path.realpath(cwd / _expanded(piece)) for piece in pieces]
    return [
        path for path in dict.fromkeys(found) if path != cwd and not path.startswith(SYSTEM) and os.path.lexists(path)
    ][:MOST]


def _expanded(text: str) -> Path:
    return Path.home() / text[2:] if text == "~" or text.startswith("~/") else Path(text)


# The labels.

LONGEST_JOB_NS = 1_800_000_000_000
COMMAND_CHARS = 100
SHORT_ARGUMENT = 5
MOST_JOBS = 16
"""Background commands that are watched at a time."""
_RUNNERS = re.compile(
    r"(?<![\w.-])(?:python[\d.]*|pypy\d?|node|deno|bun|ruby|perl|php|lua|bash|sh|zsh|dash|source|make|just|npm|pnpm|yarn|npx|uv|tox|nox"
    r"|pytest|cargo|go|gradle|mvn|rake|bundle|docker|podman|pre-commit|ansible-playbook|terraform)(?![\w-])|(?:^|[;&|]\s*)\./"
)


_READERS = frozenset(
    "basename cat cmp cp cut diff dirname du echo file grep head ln ls md5sum mkdir mv od pwd readlink realpath "
    "sha256sum stat tail touch uniq wc".split()
)


def only_reads(command: str) -> bool:
    """Whether every program of a command line only looks at files or copies them, so that none it names is run.

    On some file systems every file may be executed: that alone does not make it a program.
    """
    parsed = parse_shell(command)
    return isinstance(parsed, tuple) and all(segment.argv[0] in _READERS for segment in parsed)


class JobLabels(Struct):
    """What a background command has read so far."""

    origins: tuple[Origin, ...] = ()
    watch: OpenWatch | None = None
    began: int = 0

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()


class Egress(Struct):
    """What was sent out since a person last asked for something, by the run and those it set to work."""

    requests: int = 20
    """Given addresses that may be fetched once untrusted text was read."""
    bytes: int = 512
    """Bytes that may be added to the addresses of sites the owner named."""
    fetched: set[str] = field(default_factory=set)
    composed: int = 0

    @property
    def within(self) -> bool:
        return self.composed <= self.bytes and len(self.fetched) <= self.requests


class LabelContext(Struct, frozen=True, kw_only=True):
    """What a run's labels depend on."""

    files: LabelledFiles
    places: TrustedPaths
    journal: UndoJournal
    redactor: Redactor
    """Knows the credentials."""
    jobs: dict[str, JobLabels]
    """What background commands have read, by name. Shared by all runs of the process."""
    protected: ProtectedPlaces = ProtectedPlaces()
    egress: Egress


class RunLabels:
    """The untrusted origins a run has read so far, which may influence its next call."""

    def __init__(self, known: LabelContext, *, origins: Sequence[Origin] = (), said: Sequence[Message] = ()) -> None:
        self._known = known
        self.origins = merge_origins(origins, *(message_origins(message) for message in said))
        self._given: list[str] = []
        """Text the model was given, that neither it nor another run wrote."""
        self._public: list[str] = []
        """The part of it that is not secret: strangers' words, and what the owner said himself."""
        self._untrusted: list[tuple[Origin, str]] = []
        self._owner: list[str] = []
        self._servers: defaultdict[str, list[str]] = defaultdict(list)
        """What each tool server has said: it may be told that again."""
        self._vouched: set[str] = set()
        self._unheard = list(said)
        """Earlier messages, processed at the first call: most turns call nothing."""

    def heard(self, message: Message) -> None:
        """Adds a message that is now in the context."""
        self.origins = merge_origins(self.origins, message_origins(message))
        self._unheard.append(message)

    def _catch_up(self) -> None:
        """Processes the messages added since the last call."""
        unheard, self._unheard = self._unheard, []
        for message in unheard:
            if isinstance(message, Assistant) and not message.origins:
                continue
            found = message_origins(message)
            if message.origins and not found:  # trusted by the owner, who did not write it
                continue
            if found:
                self._remember(message.text, found)
            own = isinstance(message, User) and not found
            if is_verbatim(message, found):
                self._given.append(message.text)
                self._public += [message.text] if found or own else []
            if own:
                self._owner.append(message.text)

    @property
    def wishes(self) -> list[str]:
        """What the owner said last: the words that this run is for."""
        self._catch_up()
        return self._owner[-1:]

    def _remember(self, text: str, origins: Sequence[Origin]) -> None:
        self.origins = merge_origins(self.origins, origins)
        self._untrusted += [(each, text) for each in origins]

    def asked_by(self, call: str) -> str:
        """The untrusted text that most resembles a call: its source and the matching words; empty when none does."""
        wanted = set(re.findall(r"[\w./:@-]{4,}", call.lower()))
        best, shared = None, 0
        for where, whole in self._untrusted:
            text = unwrap(whole)
            count = sum(word in text.lower() for word in wanted)
            if count > shared:
                best, shared = (where, text), count
        if best is None or shared * 3 < len(wanted):
            return ""
        return f"{best[0].source}: “{_around(best[1], wanted)}”"

    def vouch(self, call_id: str) -> None:
        """Records that the owner approved this call, so that what it writes counts as his own."""
        self._vouched.add(call_id)

    def cleaned(self, text: str) -> str:
        return self._known.redactor.known(sanitize_external_text(text))

    # Before a call.

    def actions(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> tuple[ActionKind, ...]:
        """The actions of a call that runs no command, for the label policy."""
        self._catch_up()
        effects, box = tool.effects(args), sandbox_of(tool, args)
        writes = Effects.WRITES_FILES in effects
        changed = [path for path in tool.resources(args, context) if path.startswith("/")] if writes else []
        reads = argument_paths(args, context, box) if Effects.READS_FILES in effects else []
        # A patch names its files inside; moving a file gives its contents another name.
        reads += [path for path in changed if Effects.READS_FILES in effects and os.path.lexists(path)]
        facts = CallFacts(
            reads=reads,
            writes=changed,
            protected=[path for path in changed if name_place(path, self._known.protected)],
            workspace=command_directory({}, context, box) if writes else "",
            address_known=Effects.FETCHES not in effects or self._may_fetch(tool, args),
            named=self._owner,
        )
        return actions_of(effects, facts)

    def place_of(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str:
        """The protected place that a call would change, in words for the owner; empty when there is none."""
        command = args.get("command")
        if isinstance(command, str):
            cwd, places = command_directory(args, context), self._known.protected
            path, what = protected_by(command, cwd, places) if not only_shows(command, cwd, places.home) else ("", "")
            return f"{what} ({path})" if what else ""
        for path in sorted(tool.resources(args, context)):
            if path.startswith("/") and (what := name_place(path, self._known.protected)):
                return f"{what} ({path})"
        return ""

    def is_harmless(self, args: Mapping[str, Any], context: ToolContext) -> bool:
        """Whether a command on this machine only reads, or makes files that the `write` tool may make."""
        command = args.get("command")
        if not isinstance(command, str) or args.get("env"):
            return False
        cwd, workspace = command_directory(args, context), os.path.realpath(context.workspace)
        return look_harmless(command, cwd, workspace, self._known.protected) is not None

    def command_actions(
        self, command: str, args: Mapping[str, Any], context: ToolContext, *, open_policy: bool
    ) -> tuple[ActionKind, ...]:
        """The actions of a command that is not harmless. With `open_policy` it may stay on the machine unasked."""
        cwd, home = command_directory(args, context), self._known.protected.home
        found: list[ActionKind] = []
        if open_policy and self.origins and leaves(command, cwd, home):
            found.append("send")
        if self.origins and deletes(command):
            found.append("delete")
        if self.origins and secret_in(command, cwd, home, "\n".join(self._owner)):
            found.append("read-secret")
        return (*found, "run")

    def is_wished(self, tool: Tool, args: Mapping[str, Any]) -> bool:
        """Whether the owner asked for a message or a reminder himself, in what he said last."""
        return asked_for(tool.spec.name, args, self.wishes, self._public)

    def _may_fetch(self, tool: Tool, args: Mapping[str, Any]) -> bool:
        """Whether a call fetches only what was given, and no more of it than a run may."""
        server, _, named = tool.spec.name.partition("__")
        public = [*self._public, *self._servers[server]] if named else self._public
        safe = is_safe_to_send(args, self._given, public, self._owner)
        texts = list(strings(args))
        addresses = [text for text in texts if "://" in text]
        if not safe:
            added = [composed_bytes(text, self._owner, self._public) for text in addresses]
            others = [text for text in texts if text not in addresses]
            if not added or None in added or not is_safe_to_send({"": others}, self._given, public, self._owner):
                return False
            self._known.egress.composed += sum(each or 0 for each in added)
        # The owner's own addresses are his to ask for; those of a page may spell something out.
        if self.origins:
            self._known.egress.fetched |= {text for text in addresses if not any(text in said for said in self._owner)}
        return self._known.egress.within

    def behind(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> tuple[Origin, ...]:
        """The origins that may have caused a call that runs code: those read so far, and those of files it would
        run."""
        command = args.get("command")
        if not isinstance(command, str):
            return self.origins
        return merge_origins(self.origins, *self._run_by(tool, command, args, context))

    def _run_by(
        self, tool: Tool, command: str, args: Mapping[str, Any], context: ToolContext
    ) -> Iterable[tuple[Origin, ...]]:
        return [self._origins_of(path) for path in self.programs_in(tool, command, args, context)]

    def programs_in(self, tool: Tool, command: str, args: Mapping[str, Any], context: ToolContext) -> list[str]:
        """The files that a command runs: scripts it names, and those that a builder loads by their name."""
        if only_reads(command):
            return []
        runner = _RUNNERS.search(command) is not None
        box = sandbox_of(tool, args)
        cwd = command_directory(args, context, box)
        # A directory can be entered, not run: copying or listing one starts nothing.
        found = [
            path
            for path in command_files(command, cwd, box)
            if Path(path).is_file() and (runner or os.access(path, os.X_OK))
        ]
        return [*found, *self._known.files.loaded_below(cwd)] if runner else found

    def trust_programs(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> None:
        """The owner agreed that a command runs: what it runs is his from now on."""
        command = args.get("command")
        if isinstance(command, str):
            self._known.files.clear(self.programs_in(tool, command, args, context))

    async def before(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> "CallStart":
        """Snapshots files for undo and labels them before anything is written, so that a crash loses neither."""
        effects, files = tool.effects(args), self._known.files
        if Effects.RUNS_CODE in effects:
            command = args.get("command")
            if not isinstance(command, str):
                # What it runs may change any file, and does not say which.
                return CallStart(at=files.now() if self.origins else 0)
            self._known.journal.ran(context.run_id, context.session_key, command)
            watch = await asyncio.to_thread(self._watch, command_directory(args, context, sandbox_of(tool, args)))
            return CallStart(at=files.now(), watch=watch)
        if Effects.WRITES_FILES not in effects:
            return CallStart()
        paths = sorted(path for path in tool.resources(args, context) if path.startswith("/"))
        if not paths:  # a plugin's tool does not say which
            return CallStart(at=await asyncio.to_thread(files.now) if self.origins else 0)
        kept = await asyncio.to_thread(
            self._known.journal.keep, context.run_id, context.session_key, tool.spec.name, paths
        )
        labelled = self.origins if context.call_id not in self._vouched else ()
        if labelled:
            await asyncio.to_thread(files.mark, paths, labelled)
        return CallStart(paths=tuple(paths), kept=kept, origins=labelled)

    def _watch(self, cwd: str) -> OpenWatch:
        """Watches the labelled files, and the directories of others in the owner's own, while a command runs."""
        roots = [root for root in self._known.places.own if root != self._known.places.package]
        roots = [root for root in dict.fromkeys((*roots, cwd)) if not any(_below(root, other) for other in roots)]
        listed = self._known.files.all()
        return OpenWatch([*listed, *(path for root in roots for path in others_directories(root))])

    # After a call.

    async def after(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, began: "CallStart", output: Output
    ) -> Output:
        """The result as the model may read it, labelled."""
        if began.paths:
            await asyncio.to_thread(self._settle, tool, context, began, output)
        brought = await asyncio.to_thread(self._brought, tool, args, context, began, output)
        if began.at:
            running = (output.details or {}).get("status") == "running"
            end = self._known.files.end() + (LONGEST_JOB_NS if running else 0)
            if why := merge_origins(brought, self.origins):
                self._known.files.ran(began.at, end, why)
        # A silent download labels the files it leaves; what the model reads of it is ours.
        found = () if output.own else brought
        output = self._cleaned(tool, args, context, output, found)
        if found:
            self._remember(output.text, found)
        server, _, named = tool.spec.name.partition("__")
        if named and found:
            self._servers[server].append(output.text)
        if not (output.own or output.is_error) and is_verbatim_result(tool.spec.name, found):
            # What the call itself said is not given by its result.
            text = output.text
            for own in strings(args):
                text = text.replace(own, " ") if len(own) > SHORT_ARGUMENT else text
            self._given.append(text)
            self._public += [text] if found else []
        return output

    def _brought(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, began: "CallStart", output: Output
    ) -> tuple[Origin, ...]:
        """The untrusted origins of a result."""
        effects = tool.effects(args)
        found = [output.origins]
        if Effects.FETCHES in effects and not output.origins:
            found.append((make_origin("external", f"{tool.spec.name} {_about(args)}".strip()),))
        command = args.get("command")
        if Effects.RUNS_CODE in effects and isinstance(command, str):
            found.append(self._printed(tool, command, args, context, began.watch, output.text))
            name = (output.details or {}).get("sessionId")
            if isinstance(name, str):
                self._keep_job(name, JobLabels(merge_origins(*found), began.watch, began.at))
            elif began.watch is not None:
                began.watch.close()
        elif Effects.READS_FILES in effects:
            shown = output.touched or (() if output.listed else argument_paths(args, context, sandbox_of(tool, args)))
            found += [self._origins_of(path) for path in shown]
            found += [self._origins_of(path, name_only=True) for path in output.listed]
        named = args.get("sessionId")
        if isinstance(named, str) and (job := self._known.jobs.get(named)) is not None:
            found.append(self.job_origins(job, output.text))
        return merge_origins(*found)

    def _keep_job(self, name: str, job: JobLabels) -> None:
        jobs = self._known.jobs
        jobs[name] = job
        watched = [each for each in jobs.values() if each.watch is not None and each.watch.works]
        for oldest in watched[:-MOST_JOBS]:
            oldest.origins = merge_origins(
                oldest.origins, *map(self._origins_of, oldest.watch.all() if oldest.watch else ())
            )
            oldest.close()

    def job_origins(self, job: JobLabels, text: str) -> tuple[Origin, ...]:
        """The origins of a background command's output up to now; the files it left get them too."""
        if job.watch is not None:
            more = merge_origins(job.origins, self._observed(job.watch, text))
            if more != job.origins and job.began:
                self._known.files.ran(job.began, self._known.files.end(), more)
            job.origins = more
        return job.origins

    def _printed(
        self,
        tool: Tool,
        command: str,
        args: Mapping[str, Any],
        context: ToolContext,
        watch: OpenWatch | None,
        text: str,
    ) -> tuple[Origin, ...]:
        """The origins of a command's output: pages it fetches, labelled files it opened, files of others it names."""
        box = sandbox_of(tool, args)
        named = command_files(command, command_directory(args, context, box), box)
        if watch is not None and watch.works:
            # What is watched and was not opened was not read, whatever the line says.
            own = self._known.places.own
            named = [path for path in named if not any(_below(path, root) for root in own)]
        files = [self._origins_of(path, name_only=Path(path).is_dir()) for path in named]
        seen = self._observed(watch, text) if watch is not None else ()
        here = (make_origin("external", f"exec {command[:COMMAND_CHARS]}"),) if may_fetch(command) else ()
        return merge_origins(here, *files, seen)

    def _observed(self, watch: OpenWatch, text: str) -> tuple[Origin, ...]:
        """The origins of what a command opened; of everything it could have opened where that cannot be seen."""
        seen = watch.opened()
        if watch.lost or not watch.works:
            seen = watch.all() | set(self._known.files.all())
        found = []
        for path in sorted(seen):
            if not Path(path).is_dir():
                found.append(self._origins_of(path))
            # Of a directory that was only walked through nothing is shown.
            elif any(name in text for name in names_in(path)):
                found.append(self._origins_of(path, name_only=True))
        return merge_origins(*found)

    def _origins_of(self, path: str, *, name_only: bool = False) -> tuple[Origin, ...]:
        """The origins of a file: by location, by the list of labelled files, and of its text by marks in a note."""
        real = os.path.realpath(path)
        written = [copied_origin(each, real) for each in self._known.files.of(real)]
        marked = () if name_only else note_origins(real)
        return merge_origins(label_of(real, self._known.places, name_only=name_only), written, marked)

    def _settle(self, tool: Tool, context: ToolContext, began: "CallStart", output: Output) -> None:
        """Settles the labels of written files: notes carry theirs inside, unchanged files lose theirs."""
        files, journal = self._known.files, self._known.journal
        for path in began.paths:
            before = began.kept.get(path)
            # A file that was not kept counts as changed.
            if before is not None and not journal.settled(context.run_id, before):
                continue
            if not began.origins:
                if tool.spec.name == "write" and not output.is_error:
                    files.clear((path,))
            elif is_note(path, context.workspace):
                mark_note(Path(path), journal.text_before(before), began.origins)
                files.clear((path,))

    def _cleaned(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, output: Output, found: tuple[Origin, ...]
    ) -> Output:
        name, effects, command = tool.spec.name, tool.effects(args), args.get("command")
        # What certainly is a credential in files and in command output is blotted out, unless the owner named the file.
        blot = bool(effects & (Effects.READS_FILES | Effects.RUNS_CODE)) and Effects.FETCHES not in effects
        if blot and self._owner:
            box = sandbox_of(tool, args)
            paths = [*output.touched, *argument_paths(args, context, box)]
            if isinstance(command, str):
                paths += command_files(command, command_directory(args, context, box), box)
            blot = not any(is_named(path, self._owner) and not Path(path).is_dir() for path in paths)
        source: Source = name if name in SOURCE_NAMES else "unknown"
        content: list[Text | Image] = []
        for block in output.content:
            if not isinstance(block, Text):
                content.append(block)
                continue
            known = self._known.redactor.pattern
            text = block.text if known is None else known.sub(REDACTED, block.text)
            text = redact_found(text) if blot else text
            if output.enclosed:
                content.append(Text(text))
            elif found and text.strip():
                content.append(Text(wrap_external_content(text, source, marker_id=secrets.token_hex(8))))
            else:
                # The owner's own text: only what no file needs and a model could take for its runtime is removed.
                content.append(Text(PLAIN_TOKENS.sub(REMOVED_TOKEN, neutralise(text))))
        return structs.replace(output, content=tuple(content), origins=found)


class CallStart(Struct, frozen=True, kw_only=True):
    """The state noted before a call."""

    paths: tuple[str, ...] = ()
    kept: Mapping[str, FileBefore] = {}
    origins: tuple[Origin, ...] = ()
    at: int = 0
    watch: OpenWatch | None = None


def _below(path: str, root: str) -> bool:
    return path != root and path.startswith(root.rstrip("/") + "/")


def _about(args: Mapping[str, Any]) -> str:
    for name in ("url", "query", "sessionKey", "command", "path", "name", "action"):
        if isinstance(args.get(name), str) and args[name].strip():
            return str(args[name])[:COMMAND_CHARS]
    return ""


def _around(text: str, wanted: set[str]) -> str:
    """The passage in `text` with the words of a call, in one short line."""
    low = text.lower()
    longest = max((word for word in wanted if word in low), key=len, default="")
    at = low.find(longest)
    piece = sanitize_external_text(text[max(0, at - 60) : at + 120])
    return " ".join(piece.split())[:180]
