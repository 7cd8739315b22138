"""The labels of one run: which untrusted text its model has read, which each result adds, and where it is written.

Every result of every tool passes `after`, the one place where untrusted text is sanitised, wrapped and labelled.
"""

import os
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from msgspec import structs

from openclaw.core.messages import Image, Message, Text, grow
from openclaw.core.sandbox import SandboxSpec
from openclaw.core.secret import REDACTED
from openclaw.core.text import ActionKind, Origin, make_origin, merge_origins, neutralise
from openclaw.core.tool import Effects, Output, StartsProgram, Tool, ToolContext
from openclaw.process.tasks import run_in_thread
from openclaw.security.effects.command_facts import (
    leaves,
    look_harmless,
    paths_in,
    programs_of,
    protected_by,
    secret_in,
    with_variables,
)
from openclaw.security.effects.forms import only_shows
from openclaw.security.effects.intent import asked_for, asked_to_change
from openclaw.security.effects.opens import (
    OpenWatch,
    changed_files,
    has_other_names,
    names_in,
    other_names,
    others_directories,
)
from openclaw.security.effects.places import is_below, name_place
from openclaw.security.effects.reach import may_fetch, schedules
from openclaw.security.external import (
    PLAIN_TOKENS,
    REMOVED_TOKEN,
    SOURCE_NAMES,
    Source,
    sanitize_external_text,
    wrap_external_content,
)
from openclaw.security.file_labels import (
    HeardTexts,
    argument_paths,
    command_directory,
    command_files,
    command_paths,
    label_of,
    names_secret,
    only_reads,
    sandbox_of,
)
from openclaw.security.label_context import CallStart, JobLabels, LabelContext
from openclaw.security.labels import (
    CallFacts,
    actions_of,
    composed_bytes,
    copied_origin,
    deletes,
    is_instruction,
    is_named,
    is_safe_to_send,
    is_verbatim_result,
    message_origins,
    most_alike,
    strings,
    typed_bytes,
)
from openclaw.security.note_marks import is_note, mark_note, may_have_marks, note_origins
from openclaw.security.redaction import redact_found
from openclaw.storage.links import real_path

# The labels.

LONGEST_JOB_NS = 1_800_000_000_000
COMMAND_CHARS = 100
SHORT_ARGUMENT = 5
MOST_JOBS = 16
"""Background commands that are watched at a time."""


class RunLabels:
    """The untrusted origins a run has read so far, which may influence its next call."""

    def __init__(
        self,
        known: LabelContext,
        *,
        origins: Sequence[Origin] = (),
        earlier: Sequence[Origin] = (),
        said: Sequence[Message] = (),
    ) -> None:
        self._known = known
        self.origins = merge_origins(origins, earlier)
        self._given: list[str] = []
        """Text the model was given, that neither it nor another run wrote."""
        self._public: list[str] = []
        """The part of it that is not secret: strangers' words, and what the owner said himself."""
        self._untrusted: list[tuple[Origin, str]] = []
        self._owner: list[str] = []
        self._servers: defaultdict[str, list[str]] = defaultdict(list)
        """What each tool server has said: it may be told that again."""
        self._vouched: set[str] = set()
        self.fresh = bool(merge_origins(origins))
        """Whether untrusted text came with this run or was read in it, not only in earlier ones."""
        self._calls: dict[str, Mapping[str, Any]] = {}
        """The arguments of the calls so far, which say whether credentials were read."""
        self._said = said
        """Earlier messages, whose origins are `earlier`; processed at the first call: most turns call nothing."""
        self._unheard: list[Message] = []

    def heard(self, message: Message) -> None:
        """Adds a message that is now in the context."""
        found = message_origins(message)
        self.fresh = self.fresh or bool(found)
        self.origins = merge_origins(self.origins, found)
        self._unheard.append(message)

    def _catch_up(self) -> None:
        """Processes the messages added since the last call."""
        texts = [grow(HeardTexts, self._said)] if self._said else []
        if self._unheard:
            texts.append(HeardTexts(dict(texts[0].calls if texts else self._calls)))
            for message in self._unheard:
                texts[-1].add(message)
        self._said, self._unheard = (), []
        for heard in texts:
            self._given += heard.given
            self._public += heard.public
            self._untrusted += heard.untrusted
            self._owner += heard.owner
            self._calls |= heard.calls

    @property
    def private(self) -> bool:
        """Whether credentials were read: then nothing of the model's own wording leaves without a question."""
        self._catch_up()
        return any(map(names_secret, self._calls.values()))

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
        return most_alike(call, self._untrusted)

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
        cwd, workspace = command_directory(args, context), real_path(context.workspace)
        return look_harmless(command, cwd, workspace, self._known.protected) is not None

    def command_actions(
        self,
        command: str,
        args: Mapping[str, Any],
        context: ToolContext,
        box: SandboxSpec | None = None,
        *,
        open_policy: bool,
    ) -> tuple[ActionKind, ...]:
        """The actions of a command that is not harmless. With `open_policy` it may stay on the machine unasked."""
        if not self.origins:
            return ("run",)
        cwd, home = command_directory(args, context, box), self._known.protected.home
        found: list[ActionKind] = []
        if open_policy and box is None:
            whole = with_variables(command, args)
            found += ["send"] if leaves(whole, cwd, home) else []
            found += ["schedule"] if schedules(whole) else []
        if open_policy and not only_shows(command, cwd, home):
            workspace = real_path(context.workspace)
            named = paths_in(command, cwd, home) if box is None else command_paths(command, cwd, box)
            found += ["write-instructions"] if any(is_instruction(path, workspace) for path in named) else []
        if box is not None:
            return (*found, "run")
        if deletes(command):
            found.append("delete")
        if self.names_secret_file(command, args, context):
            found.append("read-secret")
        return (*found, "run")

    def names_secret_file(self, command: str, args: Mapping[str, Any], context: ToolContext) -> bool:
        """Whether a command names a file that usually holds credentials, and the owner did not."""
        self._catch_up()
        return secret_in(command, command_directory(args, context), self._known.protected.home, "\n".join(self._owner))

    def stays_here(self, command: str, args: Mapping[str, Any], context: ToolContext) -> bool:
        """Whether a command can take nothing off the machine."""
        return not leaves(with_variables(command, args), command_directory(args, context), self._known.protected.home)

    def is_wished(self, tool: Tool, args: Mapping[str, Any]) -> bool:
        """Whether the owner asked for a message or a reminder himself, in what he said last."""
        return asked_for(tool.spec.name, args, self.wishes, self._public)

    def is_asked_change(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, deletes: bool) -> bool:
        """Whether the owner asked himself, in what he said last, to delete or to write exactly these files."""
        roots = ((real_path(context.workspace), ""), (self._known.protected.home, "~/"))
        paths = [path for path in tool.resources(args, context) if path.startswith("/")]
        names = [
            [path, *(before + path[len(root) + 1 :] for root, before in roots if is_below(path, root))]
            for path in paths
        ]
        return asked_to_change(names, self.wishes, deletes=deletes)

    def _may_fetch(self, tool: Tool, args: Mapping[str, Any]) -> bool:
        """Whether a call fetches only what was given, and no more of it than a run may."""
        server, _, named = tool.spec.name.partition("__")
        public = [*self._public, *self._servers[server]] if named else self._public
        safe = is_safe_to_send(args, self._given, public, self._owner)
        texts = list(strings(args))
        addresses = [text for text in texts if "://" in text]
        if not safe:
            if self.origins and self.private:
                return False
            added = [composed_bytes(text, self._owner, self._public) for text in addresses]
            others = [text for text in texts if text not in addresses]
            if not added or None in added or not is_safe_to_send({"": others}, self._given, public, self._owner):
                return False
            self._known.egress.composed += sum(each or 0 for each in added)
        # The owner's own addresses are his to ask for; those of a page may spell something out.
        if self.origins:
            self._known.egress.fetched |= {text for text in addresses if not any(text in said for said in self._owner)}
            self._known.egress.composed += typed_bytes(args, self._owner)
        return self._known.egress.within

    def behind(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> tuple[Origin, ...]:
        """The origins that may have caused a call that runs code: those read so far, and those of files it runs."""
        command = args.get("command")
        if not isinstance(command, str):
            return self.origins
        return merge_origins(self.origins, *map(self._origins_of, self.programs_in(tool, command, args, context)))

    def programs_in(self, tool: Tool, command: str, args: Mapping[str, Any], context: ToolContext) -> list[str]:
        """The files that a command runs: scripts it names, and those that a builder loads by their name."""
        if only_reads(command):
            return []
        box = sandbox_of(tool, args)
        cwd = command_directory(args, context, box)
        named = command_files(command, cwd, box) if box is not None else None
        home, listed = self._known.protected.home, self._known.files.all()
        return programs_of(with_variables(command, args), cwd, home, listed, named)

    def trust_programs(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> None:
        """The owner agreed that a command runs: what it runs is his from now on."""
        command = args.get("command")
        if isinstance(command, str):
            self._known.files.clear(self.programs_in(tool, command, args, context))

    async def before(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> CallStart:
        """Snapshots files for undo and labels them before anything is written, so that a crash loses neither."""
        effects, files = tool.effects(args), self._known.files
        if Effects.RUNS_CODE in effects:
            command = args.get("command")
            if not isinstance(command, str):
                # What it runs may change any file, and does not say which.
                return CallStart(at=files.now() if self.origins else 0)
            return await run_in_thread(partial(self._begin_command, tool, command, args, context))
        if isinstance(tool, StartsProgram) and tool.starts_program:
            return await run_in_thread(self._begin_program)
        if Effects.WRITES_FILES not in effects:
            return CallStart()
        paths = sorted(path for path in tool.resources(args, context) if path.startswith("/"))
        if not paths:  # a plugin's tool does not say which
            return CallStart(at=files.now() if self.origins else 0)
        return await run_in_thread(partial(self._begin_change, tool, paths, context))

    def _begin_program(self, stop: Event) -> CallStart:
        files = self._known.files
        files.begin()
        files.seal()
        return CallStart(at=files.now())

    def _begin_command(
        self, tool: Tool, command: str, args: Mapping[str, Any], context: ToolContext, stop: Event
    ) -> CallStart:
        files = self._known.files
        self._known.journal.ran(context.run_id, context.session_key, command)
        work = files.begin()
        # What nobody agreed to may go on by itself after its end.
        if self.origins and context.call_id not in self._vouched and not self.is_harmless(args, context):
            files.seal()
        watch = self._watch(command_directory(args, context, sandbox_of(tool, args)))
        return CallStart(at=files.now(), watch=watch, work=work)

    def _begin_change(self, tool: Tool, paths: Sequence[str], context: ToolContext, stop: Event) -> CallStart:
        kept = self._known.journal.keep(context.run_id, context.session_key, tool.spec.name, paths)
        labelled = self.origins if context.call_id not in self._vouched else ()
        if labelled:
            self._known.files.mark(paths, labelled)
        return CallStart(paths=tuple(paths), kept=kept, origins=labelled)

    def _watch(self, cwd: str) -> OpenWatch:
        """Watches the labelled files, and the directories of others in the owner's own, while a command runs."""
        listed = self._known.files.all()
        return OpenWatch([*listed, *(path for root in self._own_roots(cwd) for path in others_directories(root))])

    # After a call.

    async def after(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, began: CallStart, output: Output
    ) -> Output:
        """The result as the model may read it, labelled."""
        if self._is_told_at_once(tool, args, began, output):
            brought = self._brought(tool, args, context, began, output)
        else:
            brought = await run_in_thread(partial(self._look_after, tool, args, context, began, output))
        # A silent download labels the files it leaves; what the model reads of it is ours.
        found = () if output.own else brought
        output = self._cleaned(tool, args, context, output, found)
        if found:
            self.fresh = True
            self._remember(output.text, found)
        server, _, named = tool.spec.name.partition("__")
        if named and found:
            self._servers[server].append(output.text)
        self._calls[context.call_id] = args
        given = not (output.own or output.is_error) and is_verbatim_result(tool.spec.name, found)
        if given and not names_secret(args):
            # What the call itself said is not given by its result.
            text = output.text
            for own in strings(args):
                text = text.replace(own, " ") if len(own) > SHORT_ARGUMENT else text
            self._given.append(text)
            self._public += [text] if found else []
        return output

    def _look_after(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, began: CallStart, output: Output, stop: Event
    ) -> tuple[Origin, ...]:
        """Labels the files that a call left; gives the untrusted origins of its result."""
        if began.paths:
            self._settle(tool, context, began, output)
        brought = self._brought(tool, args, context, began, output)
        if began.at:
            self._left(tool, args, context, began, brought, (output.details or {}).get("status") == "running")
        return brought

    def _left(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        context: ToolContext,
        began: CallStart,
        brought: Sequence[Origin],
        running: bool,
    ) -> None:
        """Labels the files that a program of ours left, and notes which of the labelled ones it opened."""
        files = self._known.files
        now = files.end()
        if why := merge_origins(brought, self.origins):
            # What is found keeps its label when it is changed again; the span covers the rest.
            cwd = command_directory(args, context, sandbox_of(tool, args))
            found = changed_files(self._own_roots(cwd), began.at, now)
            files.mark(found, why)
            files.wrote(found)
            files.ran(began.at, now + (LONGEST_JOB_NS if running else 0), why)
        if running:
            files.seal()
        if began.work is not None:
            watch = began.watch
            files.finish(began.work, files.all() if watch is None or watch.blind or watch.lost else watch.opened())

    def _is_told_at_once(self, tool: Tool, args: Mapping[str, Any], began: CallStart, output: Output) -> bool:
        """Whether no file has to be read and no directory searched after a call, so that no thread is needed."""
        effects = tool.effects(args)
        if began.paths or began.at or Effects.RUNS_CODE in effects or isinstance(args.get("sessionId"), str):
            return False
        if Effects.READS_FILES not in effects:
            return True
        if len(output.touched) != 1 or output.listed:
            return False
        real = real_path(output.touched[0])
        return not (may_have_marks(real) or self._known.files.has(real) or has_other_names(real))

    def _brought(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, began: CallStart, output: Output
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
            named = [path for path in named if not any(is_below(path, root) for root in own)]
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
        real = real_path(path)
        written = [copied_origin(each, real) for each in self._known.files.of(real)]
        marked = () if name_only else note_origins(real)
        places = self._known.places
        twins = () if name_only else other_names(real, self._own_roots(), self._known.files.all())
        linked = [label_of(each, places) or self._known.files.of(each) for each in twins]
        return merge_origins(label_of(real, places, name_only=name_only), written, marked, *linked)

    def _own_roots(self, *more: str) -> list[str]:
        """The owner's directories, none of them inside another."""
        roots = [root for root in self._known.places.own if root != self._known.places.package]
        return [root for root in dict.fromkeys((*roots, *more)) if not any(is_below(root, other) for other in roots)]

    def _settle(self, tool: Tool, context: ToolContext, began: CallStart, output: Output) -> None:
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
            else:
                files.wrote((path,))

    def _cleaned(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, output: Output, found: tuple[Origin, ...]
    ) -> Output:
        name, effects = tool.spec.name, tool.effects(args)
        shows_files = bool(effects & (Effects.READS_FILES | Effects.RUNS_CODE)) and Effects.FETCHES not in effects
        source: Source = name if name in SOURCE_NAMES else "unknown"
        content: list[Text | Image] = []
        for block in output.content:
            if not isinstance(block, Text):
                content.append(block)
                continue
            known = self._known.redactor.pattern
            text = block.text if known is None else known.sub(REDACTED, block.text)
            # What certainly is a credential in files and in command output is blotted out, unless its file was named.
            if (
                shows_files
                and (blotted := redact_found(text)) != text
                and not self._is_file_named(tool, args, context, output)
            ):
                text = blotted
            if output.enclosed:
                content.append(Text(text))
            elif found and text.strip():
                content.append(Text(wrap_external_content(text, source, marker_id=secrets.token_hex(8))))
            else:
                # The owner's own text: only what no file needs and a model could take for its runtime is removed.
                content.append(Text(PLAIN_TOKENS.sub(REMOVED_TOKEN, neutralise(text))))
        return structs.replace(output, content=tuple(content), origins=found)

    def _is_file_named(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, output: Output) -> bool:
        """Whether the owner named a file that a call shows."""
        if not self._owner:
            return False
        box, command = sandbox_of(tool, args), args.get("command")
        paths = [*output.touched, *argument_paths(args, context, box)]
        if isinstance(command, str):
            paths += command_files(command, command_directory(args, context, box), box)
        return any(is_named(path, self._owner) and not Path(path).is_dir() for path in paths)


def _about(args: Mapping[str, Any]) -> str:
    for name in ("url", "query", "sessionKey", "command", "path", "name", "action"):
        if isinstance(args.get(name), str) and args[name].strip():
            return str(args[name])[:COMMAND_CHARS]
    return ""
