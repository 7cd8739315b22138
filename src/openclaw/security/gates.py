"""The gates for tool calls: apply the policies, ask a person where they require it, and store the answer."""

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.clock import Clock, millis
from openclaw.core.deferred import shlex
from openclaw.core.errors import StateError
from openclaw.core.messages import ToolCall
from openclaw.core.text import ActionKind
from openclaw.core.tool import (
    ApprovalAnswer,
    ApprovalRequest,
    Approver,
    Effects,
    PlannedCall,
    ProposesCalls,
    Tool,
    ToolContext,
)
from openclaw.process.environment import find_executable
from openclaw.security.approvals import REVIEW, ApprovalFile
from openclaw.security.effects.command_facts import git_runs
from openclaw.security.effects.consent import (
    NO_PLAN,
    PLAIN,
    PLAN_SECONDS,
    ApprovedPlan,
    ExactCommand,
    SessionAllowlist,
    SharedQuestions,
    digest_programs,
    numbered,
    quoted,
)
from openclaw.security.effects.intent import targets
from openclaw.security.exec_policy import (
    Allow,
    AskPerson,
    Deny,
    ExecGrant,
    Ruling,
    decide,
    grants_for,
    stricter,
    words_of,
)
from openclaw.security.file_labels import sandbox_of
from openclaw.security.labels import CircuitBreaker, Kind, Table, deletes, read_before, strings
from openclaw.security.labels import decide as labels_decide
from openclaw.security.run_labels import RunLabels
from openclaw.security.settings import Ask, Security
from openclaw.storage.links import real_path

HOOKED = frozenset(
    "commit merge checkout switch pull push rebase am cherry-pick revert stash worktree clone gc add".split()
)
"""What git runs hooks for."""

ALWAYS_NOTE = "Always: you are not asked about exactly this command again in this conversation"
"""What "always" means when untrusted text is the reason to ask."""


# The gate for commands.


class _Command(Struct, frozen=True, kw_only=True):
    """Everything about a command that an approver must see, and what it would start."""

    command: str
    cwd: str
    path: str
    limits: tuple[Security, Ask]

    def resolve(self, word: str) -> str | None:
        """The program that `word` starts, links resolved."""
        places = [str(Path(self.cwd, place)) for place in self.path.split(os.pathsep)]
        found = find_executable(str(Path(self.cwd, word)) if "/" in word else word, os.pathsep.join(places))
        return str(Path(found).resolve()) if found else None

    def identify(self, words: Sequence[str]) -> str:
        return digest_programs(words, self.cwd, self.resolve)

    def exact(self) -> ExactCommand:
        """The command with its programs and scripts as they are now."""
        return ExactCommand(command=self.command, cwd=self.cwd, identity=self.identify(words_of(self.command)))


class ExecGate(Struct, kw_only=True):
    """Admits every call except commands, which need the allowlist or a person."""

    security: Security
    ask: Ask
    safe_bins: tuple[str, ...]
    approvals: ApprovalFile
    approver: Approver
    clock: Clock
    path: str
    agents: Mapping[str, tuple[Security, Ask]] = {}
    strict: bool = True
    settled: SessionAllowlist = field(default_factory=SessionAllowlist)
    asking: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By session key, held while a request of that conversation is open; dropped with its last waiter."""

    async def admit(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        context: ToolContext,
        cause: str = "",
        bulk: str = "",
        *,
        place: str = "",
        harmless: bool = False,
        faded: bool = False,
    ) -> str | None:
        """A `cause` asks a person even if the allowlist permits the call, unless it has `faded`; `bulk` also if it was
        settled before.

        A protected `place` is asked about each time. A `harmless` command needs no place on the allowlist.
        """
        bulk = _joined(place, bulk)
        effects = tool.effects(args)
        if Effects.RUNS_CODE not in effects:
            return None
        if Effects.CONTAINED in effects:
            return await self._inside(tool, args, context, cause, bulk)
        leaving = Effects.LEAVES_SANDBOX in effects
        if "command" not in tool.spec.parameters.get("properties", {}):
            return await self._typed(tool, args, context, _joined(cause, bulk))
        given = str(args.get("workdir") or "")
        # Taken literally otherwise: what a person is shown must be where it runs.
        cwd = context.workspace / (Path(given).expanduser() if given == "~" or given.startswith("~/") else given)
        if not cwd.is_dir():
            return f"Not run: {cwd} is not a directory."
        wish = _Command(command=_visible(args), cwd=str(cwd.resolve()), path=self.path, limits=_own_limits(args))
        if faded and self._isnumbered(wish, context.agent_id):
            cause = ""
        ruling = self._despite(wish, context, leaving, cause, bulk, harmless)
        if not isinstance(ruling, AskPerson):
            return _refusal(ruling)
        # One request per conversation at a time, since the last answer may have settled this one. Other conversations
        # do not wait: an unanswered request must not block them.
        async with self.asking.setdefault(context.session_key, asyncio.Lock()):
            ruling = self._despite(wish, context, leaving, cause, bulk, harmless)
            if not isinstance(ruling, AskPerson):
                return _refusal(ruling)
            plain = not (cause or bulk or leaving)
            return await self._asked(
                tool, wish, ruling.why, context, plain=plain, labelled=bool(cause), once=bool(place)
            )

    def is_open(self, agent_id: str, args: Mapping[str, Any]) -> bool:
        """Whether commands run without any question: `full`, and nobody asked."""
        return self._limits(agent_id, _own_limits(args)) == ("full", "off")

    def _despite(
        self, wish: _Command, context: ToolContext, leaving: bool, cause: str, bulk: str, harmless: bool
    ) -> Ruling:
        """The allowlist's ruling, unless there is a cause to ask anyway."""
        limits = self._limits(context.agent_id, wish.limits)
        if leaving:  # the owner let this session leave its sandbox, and still approves each command
            limits = stricter(limits, ("allowlist", "on-miss"))
        free = harmless and limits[0] != "deny" and limits[1] != "always"
        allowed = Allow("it only reads, or makes files that may be made")
        ruling = allowed if free else self._rule(wish, context.agent_id, *limits)
        if isinstance(ruling, Deny):
            return ruling
        listed = bool(cause) and self._isnumbered(wish, context.agent_id)
        # A person said "always" to exactly this command here, and has not revoked it.
        if listed and self.settled.knows(context.session_key, wish.exact()):
            cause = ""
        if isinstance(ruling, AskPerson):
            return AskPerson(_joined(ruling.why, cause, bulk))
        if cause and listed:
            cause = f"you allowed it before, but {cause}"
        return AskPerson(_joined(cause, bulk)) if cause or bulk else ruling

    async def _inside(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, cause: str, bulk: str
    ) -> str | None:
        """In a sandbox its isolation limits a command, not the allowlist."""
        security, ask = self._limits(context.agent_id, _own_limits(args))
        if security == "deny":
            return "Not run: tools.exec.security is deny."
        by_hand = "every command is approved by hand" if ask == "always" else ""
        what = ExactCommand(command=_visible(args), cwd=str(args.get("workdir") or ""), boxed=True)
        settles = bool(cause) and "command" in args and not by_hand
        if settles and self.settled.knows(context.session_key, what):
            cause = ""
        if not (by_hand or cause or bulk):
            return None
        why = _joined(by_hand, cause, bulk)
        why = f"{why}. {ALWAYS_NOTE}" if settles else why
        answer = await self._answer(tool, context, why, _call_text(tool, args), standing=settles)
        if settles and answer.decision == "allow-always":
            self.settled.add(context.session_key, what)
        return _denied(answer)

    async def _typed(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, cause: str) -> str | None:
        """Input to a running program can be anything, so the allowlist does not apply and a person decides."""
        security, ask = self._limits(context.agent_id)
        if security == "deny":
            return "Not run: tools.exec.security is deny."
        if security == "full" and ask == "off" and not cause:
            return None
        if ask == "off" and not cause:
            return "Not run: it is typed to a running program, and tools.exec.ask is off."
        return await self.ask_person(tool, args, context, cause or "it is typed to a running program")

    async def ask_person(
        self,
        tool: Tool,
        args: Mapping[str, Any],
        context: ToolContext,
        why: str,
        *,
        text: str = "",
        also: tuple[ToolCall, ...] = (),
    ) -> str | None:
        """Asks a person about a call that is not a command; the answer holds once, and for the calls in `also`."""
        return _denied(await self._answer(tool, context, why, text or _call_text(tool, args), also=also))

    def exact(self, command: str, context: ToolContext) -> ExactCommand:
        """A command in the workspace, with its programs and scripts as they are now."""
        cwd = str(context.workspace.resolve())
        return _Command(command=command, cwd=cwd, path=self.path, limits=("full", "off")).exact()

    async def _answer(
        self,
        tool: Tool,
        context: ToolContext,
        why: str,
        command: str,
        cwd: str = "",
        *,
        identity: str = "",
        standing: bool = False,
        also: tuple[ToolCall, ...] = (),
    ) -> ApprovalAnswer:
        return await self.approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=tool.spec.name,
                command=command,
                cwd=cwd or str(context.workspace),
                agent_id=context.agent_id,
                session_key=context.session_key,
                why=why,
                origins=context.origins,
                standing=standing,
                identity=identity,
                run_id=context.run_id,
                call=context.call,
                also=also,
            )
        )

    def _limits(self, agent_id: str, own: tuple[Security, Ask] = ("full", "off")) -> tuple[Security, Ask]:
        """The strictest of the configuration, the approvals file and the call's own limits."""
        document = self.approvals.read()
        limits = stricter(self.agents.get(agent_id, (self.security, self.ask)), own)
        for layer in (document.defaults, document.agents.get(agent_id)):
            if layer is not None:
                limits = stricter(limits, (layer.security or "full", layer.ask or "off"))
        return limits

    def _rule(self, wish: _Command, agent_id: str, security: Security, ask: Ask) -> Ruling:
        agent = self.approvals.read().agents.get(agent_id)
        grants = [_grant(entry) for entry in (agent.allowlist if agent else ())]
        # A repository whose settings run something makes git more than a reader, whatever was granted for git itself.
        words = words_of(wish.command) if security == "allowlist" else ()
        if "git" in words and (runs := git_runs(wish.cwd, commits=not HOOKED.isdisjoint(words))):
            grants = [grant for grant in grants if (grant.arg_pattern or "").startswith("sha256:")]
            why = f"git would run something of this repository ({runs})"
        else:
            why = ""
        ruling = decide(
            wish.command, wish.cwd, security, ask, grants, wish.resolve, self.safe_bins, wish.identify, self.strict
        )
        if security == "allowlist" and self.approvals.is_changed():
            why = _joined(why, f"exec-approvals.json was changed by another program: look at it with {REVIEW}")
        return AskPerson(_joined(ruling.why, why)) if why and isinstance(ruling, AskPerson) else ruling

    def _isnumbered(self, wish: _Command, agent_id: str) -> bool:
        return isinstance(self._rule(wish, agent_id, "allowlist", "off"), Allow)

    async def _asked(
        self, tool: Tool, wish: _Command, why: str, context: ToolContext, *, plain: bool, labelled: bool, once: bool
    ) -> str | None:
        """Asks about a command; an answer of `once` is good for this time only."""
        seen = wish.exact()
        # What "always" would grant; nothing for code in an argument.
        grants = grants_for(
            wish.command, wish.cwd, wish.resolve, partial(secrets.token_hex, 4), wish.identify, self.strict
        )
        grants = () if once or self.approvals.is_changed() else grants
        why = f"{why}. {ALWAYS_NOTE}" if labelled and grants else why
        answer = await self._answer(
            tool, context, why, wish.command, wish.cwd, identity=seen.identity, standing=bool(grants)
        )
        if answer.nobody and plain and self._goes_on(wish, context.agent_id):
            return None
        if answer.decision == "deny":
            return _denied(answer)
        # The files may have been swapped while the person was reading.
        if wish.exact() != seen:
            return "Not run: a program or script in it was changed while the user was asked. Ask again."
        if answer.decision == "allow-always" and grants:
            self.approvals.allow(context.agent_id, [msgspec.to_builtins(grant) for grant in grants], millis(self.clock))
            if labelled:
                self.settled.add(context.session_key, seen)
        return None

    def _goes_on(self, wish: _Command, agent_id: str) -> bool:
        """Whether a command runs although nobody answered: by the approvals file's fallback, deny when absent."""
        fallback = self.approvals.read().fallback(agent_id)
        return self._isnumbered(wish, agent_id) if fallback == "allowlist" else fallback == "full"


def _call_text(tool: Tool, args: Mapping[str, Any]) -> str:
    return f"{tool.spec.name} {msgspec.json.encode(dict(args)).decode()}"


def _joined(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _denied(answer: ApprovalAnswer) -> str | None:
    if answer.decision != "deny":
        return None
    return f"Not run: {answer.why or 'the user said no'}. Do not try to get round it; ask what to do instead."


def _refusal(ruling: Allow | Deny) -> str | None:
    return f"Not run: {ruling.why}." if isinstance(ruling, Deny) else None


def _grant(entry: Mapping[str, Any]) -> ExecGrant:
    try:
        grant = msgspec.convert(entry, ExecGrant)
    except msgspec.ValidationError as error:
        raise StateError(f"an allowlist entry in exec-approvals.json cannot be read ({error}): mend it") from error
    if not grant.pattern.startswith("~/"):
        return grant
    return structs.replace(grant, pattern=str(Path(grant.pattern).expanduser()))


def _visible(args: Mapping[str, Any]) -> str:
    """The command with its environment variables, which are part of what is approved."""
    env = args.get("env") or {}
    exports = "".join(f"export {name}={shlex.quote(str(value))}; " for name, value in sorted(env.items()))
    return exports + str(args.get("command", ""))


def _own_limits(args: Mapping[str, Any]) -> tuple[Security, Ask]:
    """The call's own limits; they can only be stricter than the configured ones."""
    security, ask = args.get("security"), args.get("ask")
    return (security if security in ("deny", "allowlist") else "full", ask if ask in ("on-miss", "always") else "off")


# The gate for labels.

SENDING: frozenset[ActionKind] = frozenset({"send", "fetch-composed"})
IRREVERSIBLE = SENDING | {"delete"}
WISHED: frozenset[ActionKind] = frozenset({"send", "schedule"})
"""What is not asked about when the owner's own words ask for it."""


NAMED: frozenset[ActionKind] = frozenset({"delete", "write-outside"})
"""What is not asked about when his words ask for it and name the files."""

_Waiting = tuple[Tool, Mapping[str, Any], ToolContext]


class LabelGate(Struct, frozen=True):
    """Applies protected places, the label policy and the circuit breaker to every call, then the exec gate."""

    inner: ExecGate
    labels: RunLabels
    table: Table
    open_table: Table
    """The table where commands run without a question."""
    breaker: CircuitBreaker
    clock: Clock
    agreed: set[str] = field(default_factory=set)
    """What a person agreed to in this run: a tool and where it sends."""
    questions: SharedQuestions[_Waiting] = field(default_factory=SharedQuestions)
    plans: dict[str, ApprovedPlan] = field(default_factory=dict)
    """By session, what the owner approved beforehand. Shared by the runs of a conversation that go on with it."""

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        effects = tool.effects(args)
        if Effects.RUNS_CODE in effects:
            return await self._admit_command(tool, args, context, effects)
        if isinstance(tool, ProposesCalls) and (proposed := tool.proposed(args)):
            return await self._admit_plan(tool, args, context, proposed)
        actions, origins = self.labels.actions(tool, args, context), self.labels.origins
        # What the owner asked for in his own words, to whom he named, is his.
        if origins and not WISHED.isdisjoint(actions) and self.labels.is_wished(tool, args):
            actions = tuple(action for action in actions if action not in WISHED)
        named = partial(self.labels.is_asked_change, tool, args, context)
        asked = tuple(each for each in actions if not (origins and each in NAMED and named(each == "delete")))
        ruling = labels_decide(asked, origins, self.table)
        if not isinstance(ruling, Allow) and self.inner.is_open(context.agent_id, {}):
            ruling = labels_decide(asked, origins, self.open_table)
        irreversible = not IRREVERSIBLE.isdisjoint(actions)
        if isinstance(ruling, Allow) and not irreversible:
            return None
        if isinstance(ruling, Deny):
            return _refused_by_table(ruling)
        counts = _counts(actions, args, runs=False) if irreversible else {}
        tripped = self._tripped(counts)
        place = self.labels.place_of(tool, args, context) if "configure" in actions else ""
        cause = self._cause(ruling, args, place)
        refusal = None
        if cause or tripped:
            context = structs.replace(context, origins=origins)
            intent = _intent(tool, actions, args)
            # Once credentials were read, an earlier yes does not cover what may carry them.
            alone = bool(tripped or place) or self.labels.private
            if alone or not (intent in self.agreed or self._is_planned(tool, asked, args, context)):
                why = _joined(cause, *tripped.values())
                refusal = await self._ask(tool, args, context, why, intent, "" if alone else " ".join(sorted(asked)))
            if refusal is None:
                self.agreed.update((intent,) if intent else ())
                if Effects.WRITES_FILES in effects:
                    self.labels.vouch(context.call_id)
        return self._counted(refusal, counts, tripped)

    async def _ask(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, why: str, intent: str, kind: str
    ) -> str | None:
        """Asks about a call; calls of the same reply with the same tool and `kind` of effect are one question."""

        async def put(calls: Sequence[_Waiting]) -> str | None:
            text = numbered([_call_text(tool, args) for tool, args, _ in calls]) if len(calls) > 1 else ""
            also = tuple(context.call for _, _, context in calls[1:] if context.call is not None)
            return await self.inner.ask_person(tool, args, context, why, text=text, also=also)

        together = f"{tool.spec.name} {kind} {context.call is None}" if kind else context.call_id
        return await self.questions.ask(together, (tool, args, context), put, lambda: intent in self.agreed)

    def _plan(self, context: ToolContext) -> ApprovedPlan:
        plan = self.plans.get(context.session_key, NO_PLAN)
        return plan if self.clock.now() < plan.until else NO_PLAN

    def _is_planned(
        self, tool: Tool, actions: Sequence[ActionKind], args: Mapping[str, Any], context: ToolContext
    ) -> bool:
        """Whether the owner approved a call that is no command with a plan."""
        paths = [real_path(path) for path in tool.resources(args, context) if path.startswith("/")]
        where = [*targets(args), *(paths if Effects.WRITES_FILES in tool.effects(args) else ())]
        return self._plan(context).covers(tool.spec.name, actions, where)

    async def _admit_plan(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, proposed: Sequence[PlannedCall]
    ) -> str | None:
        """Asks the owner about calls that are to be made later, all in one question; what needs none is left out."""
        shown: list[str] = []
        places: dict[str, frozenset[str]] = {}
        commands: set[ExactCommand] = set()
        for call in proposed:
            if call.tool == "exec":
                lines = [line for line in call.to if self._is_plannable(tool, line, context)]
                commands |= {self.inner.exact(line, context) for line in lines}
                shown += [f"exec {quoted(line)}" for line in lines]
            else:
                files = {real_path(context.workspace / Path(each).expanduser()) for each in call.to}
                places[call.tool] = places.get(call.tool, frozenset()) | {each.lower() for each in call.to} | files
                shown += [f"{call.tool} to {', '.join(map(quoted, call.to))}"]
        plan = ApprovedPlan(commands=frozenset(commands), places=places, until=self.clock.now() + PLAN_SECONDS)
        known = self._plan(context)
        if not shown or plan.joined(known) == structs.replace(known, until=plan.until):
            return None
        why = "the calls below would run without a question for the rest of this run"
        if origins := self.labels.origins:
            asked = self.labels.asked_by(" ".join(strings(args)))
            why += read_before(origins) + (f". The text that seems to ask for it is from {asked}" if asked else "")
        context = structs.replace(context, origins=origins)
        refusal = await self.inner.ask_person(tool, args, context, why, text=numbered(shown))
        if refusal is None:
            self.plans[context.session_key] = plan.joined(known)
        return refusal

    def _is_plannable(self, tool: Tool, line: str, context: ToolContext) -> bool:
        """Whether a plan can cover a command, and has to: it is neither free nor does it touch what is protected."""
        args = {"command": line}
        if self.labels.is_harmless(args, context) or self._is_guarded(tool, args, context):
            return False
        return not (self.inner.is_open(context.agent_id, {}) and self.labels.stays_here(line, args, context))

    def _is_guarded(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> bool:
        place = self.labels.place_of(tool, args, context)
        return bool(place) or self.labels.names_secret_file(str(args["command"]), args, context)

    def _is_planned_command(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> bool:
        plan, given = self._plan(context), {name for name, value in args.items() if value}
        if not (plan.commands and given <= PLAIN) or self.labels.private:
            return False
        known = self.inner.exact(str(args["command"]), context) in plan.commands
        return known and not self._is_guarded(tool, args, context)

    async def _admit_command(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, effects: Effects
    ) -> str | None:
        command = args.get("command")
        plain = isinstance(command, str) and Effects.CONTAINED not in effects
        harmless = plain and self.labels.is_harmless(args, context)
        table, place, behind = self.table, "", self.labels.origins
        actions: tuple[ActionKind, ...] = ()
        if not harmless:
            place = self.labels.place_of(tool, args, context) if plain else ""
            behind = self.labels.behind(tool, args, context)
            box = sandbox_of(tool, args)
            stays = box is not None and box.network == "none"
            open_policy = (plain or stays) and self.inner.is_open(context.agent_id, args)
            # Nobody knows what code from elsewhere does: it counts as leaving the machine, unless a sandbox holds it.
            local = open_policy and (stays or behind == self.labels.origins)
            table = self.open_table if local else self.table
            actions = ("run",)
            if isinstance(command, str) and (plain or stays):
                actions = self.labels.command_actions(command, args, context, box, open_policy=open_policy)
        context = structs.replace(context, origins=behind)
        ruling = labels_decide(actions, behind, table)
        if isinstance(ruling, Deny):
            return _refused_by_table(ruling)
        counts = _counts(actions, args, runs=True)
        tripped = self._tripped(counts)
        cause = self._cause(ruling, args, "")
        place = f"it changes {place}" if place else ""
        bulk = "; ".join(tripped.values())
        planned = plain and self._is_planned_command(tool, args, context)
        # What was read in earlier runs does not ask again about what the owner allowed for good, if it stays here.
        faded = bool(cause) and plain and isinstance(command, str) and behind == self.labels.origins
        faded = faded and not self.labels.fresh and self.labels.stays_here(str(command), args, context)
        refusal = await self.inner.admit(
            tool,
            args,
            context,
            "" if planned else cause,
            bulk,
            place=place,
            harmless=harmless or planned,
            faded=faded,
        )
        if refusal is None and cause:
            self.labels.vouch(context.call_id)
            self.labels.trust_programs(tool, args, context)
        return self._counted(refusal, counts, tripped)

    def _cause(self, ruling: Ruling, args: Mapping[str, Any], place: str) -> str:
        """Why a person is asked; empty when nobody has to be."""
        if not isinstance(ruling, AskPerson):
            return ""
        why = f"it changes {place}; {ruling.why}" if place else ruling.why
        asked = self.labels.asked_by(" ".join(strings(args))) if self.labels.origins else ""
        return f"{why}. The text that seems to ask for it is from {asked}" if asked else why

    def _tripped(self, counts: Mapping[Kind, int]) -> dict[Kind, str]:
        now = self.clock.now()
        return {kind: why for kind, count in counts.items() if (why := self.breaker.tripped(kind, count, now))}

    def _counted(self, refusal: str | None, counts: Mapping[Kind, int], tripped: Mapping[Kind, str]) -> str | None:
        if refusal is None:
            for kind in tripped:
                self.breaker.excused(kind)
            for kind, count in counts.items():
                self.breaker.count(kind, count, self.clock.now())
        return refusal


def _refused_by_table(ruling: Deny) -> str:
    return f"Not done: {ruling.why}. It is refused by the table of labels (security.externalContent)."


def _intent(tool: Tool, actions: Sequence[ActionKind], args: Mapping[str, Any]) -> str:
    """What a person agrees to beyond this call: the same tool, sending to the same places; empty when it names none."""
    if "configure" in actions or "delete" in actions or SENDING.isdisjoint(actions):
        return ""
    where = sorted(set(targets(args)))
    return f"{tool.spec.name} {' '.join(where)}" if where else ""


def _counts(actions: Sequence[ActionKind], args: Mapping[str, Any], *, runs: bool) -> dict[Kind, int]:
    """How many irreversible actions of each kind a call performs."""
    command, patch = args.get("command"), args.get("input")
    gone = deletes(command) if runs and isinstance(command, str) else 0
    if "delete" in actions:
        gone += max(1, patch.count("*** Delete File:") if isinstance(patch, str) else 1)
    return {"deletes": gone, "sends": int(not SENDING.isdisjoint(actions))}
