"""The gates for tool calls: apply the policies, ask a person where they require it, and store the answer."""

import asyncio
import hashlib
import os
import secrets
import shlex
import shutil
import stat
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import StateError
from openclaw.core.text import ActionKind
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Approver, Effects, Tool, ToolContext
from openclaw.security.approvals import ApprovalFile
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
from openclaw.security.labels import CircuitBreaker, Kind, Table, deletes, strings
from openclaw.security.labels import decide as labels_decide
from openclaw.security.run_labels import RunLabels
from openclaw.security.settings import Ask, Security

SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/nix/store/", "/gnu/store/")
"""System programs change only with updates and by root, so their content is not pinned."""
SCRIPTS = (".sh", ".bash", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".r", ".ps1")
LARGEST = 256 * 1024 * 1024


# The identity of the programs and scripts in a command.


def digest_programs(words: Sequence[str], cwd: str, resolve: Callable[[str], str | None]) -> str:
    """A digest of the programs and scripts that `words` start; empty when only system programs are named."""
    parts = []
    for place, word in enumerate(words):
        path = (resolve(word) if place == 0 or "/" in word else None) or os.path.join(cwd, word)  # noqa: PTH118
        if "\0" in path or path.startswith(SYSTEM):
            continue
        if digest := _digest(Path(path)):
            parts.append(f"{path}\0{digest}")
    if not parts:
        return ""
    return "sha256:" + hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _digest(path: Path) -> str:
    """The digest of an executable or script; empty for anything else."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            return ""
        runs = about.st_mode & 0o111 or path.suffix.lower() in SCRIPTS
        if not runs:
            return ""
        if about.st_size > LARGEST:  # too large to hash; size and time are almost as good
            return f"{about.st_size}:{about.st_mtime_ns}:{about.st_ino}"
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""


# Answers that hold for a conversation.


class ExactCommand(Struct, frozen=True, kw_only=True):
    """One command as it was shown: its text, directory, and the digest of its programs and scripts."""

    command: str
    cwd: str
    identity: str = ""
    boxed: bool = False


class SessionAllowlist:
    """Commands a person always allows in a conversation, until it is reset or the process ends."""

    def __init__(self) -> None:
        self._known: defaultdict[str, set[ExactCommand]] = defaultdict(set)

    def add(self, session_key: str, what: ExactCommand) -> None:
        self._known[session_key].add(what)

    def knows(self, session_key: str, what: ExactCommand) -> bool:
        return session_key in self._known and what in self._known[session_key]

    def forget(self, session_key: str) -> None:
        self._known.pop(session_key, None)


ALWAYS_NOTE = "Always: you are not asked about exactly this command again in this conversation"
"""What "always" means when untrusted text is the reason to ask."""


# The gate for commands.


class _CommandRequest(Struct, frozen=True, kw_only=True):
    """Everything about a command that an approver must see."""

    command: str
    cwd: str
    security: Security = "full"
    ask: Ask = "off"


class ExecGate:
    """Admits every call except commands, which need the allowlist or a person."""

    def __init__(
        self,
        *,
        security: Security,
        ask: Ask,
        safe_bins: tuple[str, ...],
        approvals: ApprovalFile,
        approver: Approver,
        clock: Clock,
        path: str,
        agents: Mapping[str, tuple[Security, Ask]] | None = None,
        strict: bool = True,
        settled: SessionAllowlist | None = None,
    ) -> None:
        self._strict = strict
        self._settled = settled or SessionAllowlist()
        self._agents = agents or {}
        self._security: Security = security
        self._ask: Ask = ask
        self._safe_bins = safe_bins
        self._approvals = approvals
        self._approver = approver
        self._clock = clock
        self._path = path
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By session key, held while a request of that conversation is open; dropped with its last waiter."""

    async def admit(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, cause: str = "", bulk: str = ""
    ) -> str | None:
        """A `cause` asks a person even if the allowlist permits the call; `bulk` also if it was settled before."""
        effects = tool.effects(args)
        if Effects.RUNS_CODE not in effects:
            return None
        if Effects.CONTAINED in effects:
            return await self._inside(tool, args, context, cause, bulk)
        leaving = Effects.LEAVES_SANDBOX in effects
        if "command" not in tool.spec.parameters.get("properties", {}):
            return await self._typed(tool, args, context, _joined(cause, bulk))
        cwd = _workdir(args, context)
        if not cwd.is_dir():
            return f"Not run: {cwd} is not a directory."
        security, ask = _own_limits(args)
        wish = _CommandRequest(command=_visible(args), cwd=str(cwd.resolve()), security=security, ask=ask)
        ruling = self._despite(wish, context, leaving, cause, bulk)
        if not isinstance(ruling, AskPerson):
            return _refusal(ruling)
        # One request per conversation at a time, since the last answer may have settled this one. Other conversations
        # do not wait: an unanswered request must not block them.
        async with self._asking.setdefault(context.session_key, asyncio.Lock()):
            ruling = self._despite(wish, context, leaving, cause, bulk)
            if not isinstance(ruling, AskPerson):
                return _refusal(ruling)
            fallback = "" if cause or bulk or leaving else self._fallback(context.agent_id)
            return await self._asked(tool, wish, ruling.why, context, fallback, labelled=bool(cause))

    def _despite(self, wish: _CommandRequest, context: ToolContext, leaving: bool, cause: str, bulk: str) -> Ruling:
        """The allowlist's ruling, unless there is a cause to ask anyway."""
        ruling = self._rule(wish, context.agent_id, leaving)
        if isinstance(ruling, Deny):
            return ruling
        if cause and self._is_settled(wish, context):
            cause = ""
        if isinstance(ruling, AskPerson):
            return AskPerson(_joined(ruling.why, cause, bulk))
        if cause and self._is_listed(wish, context.agent_id):
            cause = f"you allowed it before, but {cause}"
        return AskPerson(_joined(cause, bulk)) if cause or bulk else ruling

    def _is_settled(self, wish: _CommandRequest, context: ToolContext) -> bool:
        """Whether a person said "always" to exactly this command here, and has not revoked it."""
        what = ExactCommand(command=wish.command, cwd=wish.cwd, identity=self._seen(wish))
        return self._settled.knows(context.session_key, what) and self._is_listed(wish, context.agent_id)

    def _seen(self, wish: _CommandRequest) -> str:
        return self._identity(words_of(wish.command), wish.cwd)

    async def _inside(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, cause: str, bulk: str
    ) -> str | None:
        """In a sandbox its isolation limits a command, not the allowlist."""
        security, ask = stricter(self._effective(context.agent_id), _own_limits(args))
        if security == "deny":
            return "Not run: tools.exec.security is deny."
        by_hand = "every command is approved by hand" if ask == "always" else ""
        what = ExactCommand(command=_visible(args), cwd=str(args.get("workdir") or ""), boxed=True)
        settles = bool(cause) and "command" in args and not by_hand
        if settles and self._settled.knows(context.session_key, what):
            cause = ""
        if not (by_hand or cause or bulk):
            return None
        why = _joined(by_hand, cause, bulk)
        answer = await self._answer(tool, args, context, f"{why}. {ALWAYS_NOTE}" if settles else why, standing=settles)
        if settles and answer.decision == "allow-always":
            self._settled.add(context.session_key, what)
        return _denied(answer)

    async def _typed(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, cause: str) -> str | None:
        """Input to a running program can be anything, so the allowlist does not apply and a person decides."""
        security, ask = self._effective(context.agent_id)
        if security == "deny":
            return "Not run: tools.exec.security is deny."
        if security == "full" and ask == "off" and not cause:
            return None
        if ask == "off" and not cause:
            return "Not run: it is typed to a running program, and tools.exec.ask is off."
        return await self.ask(tool, args, context, cause or "it is typed to a running program")

    async def ask(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, why: str) -> str | None:
        """Asks a person about a call that is not a command; the answer holds once."""
        return _denied(await self._answer(tool, args, context, why))

    async def _answer(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, why: str, *, standing: bool = False
    ) -> ApprovalAnswer:
        return await self._approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=tool.spec.name,
                command=f"{tool.spec.name} {msgspec.json.encode(dict(args)).decode()}",
                cwd=str(context.workspace),
                agent_id=context.agent_id,
                session_key=context.session_key,
                why=why,
                origins=context.origins,
                standing=standing,
            )
        )

    def _effective(self, agent_id: str) -> tuple[Security, Ask]:
        """The stricter of the configuration and the approvals file."""
        document = self._approvals.read()
        security, ask = self._agents.get(agent_id, (self._security, self._ask))
        for layer in (document.defaults, document.agents.get(agent_id)):
            if layer is not None:
                security, ask = stricter((security, ask), (layer.security or "full", layer.ask or "off"))
        return security, ask

    def _rule(self, wish: _CommandRequest, agent_id: str, leaving: bool = False) -> Ruling:
        agent = self._approvals.read().agents.get(agent_id)
        security, ask = stricter(self._effective(agent_id), (wish.security, wish.ask))
        if leaving:  # the owner let this session leave its sandbox, and still approves each command
            security, ask = stricter((security, ask), ("allowlist", "on-miss"))
        grants = [_grant(entry) for entry in (agent.allowlist if agent else ())]
        return self._judge(wish, security, ask, grants)

    def _judge(self, wish: _CommandRequest, security: Security, ask: Ask, grants: Sequence[ExecGrant]) -> Ruling:
        return decide(
            wish.command,
            wish.cwd,
            security,
            ask,
            grants,
            lambda word: self._resolve(word, wish.cwd),
            self._safe_bins,
            lambda words: self._identity(words, wish.cwd),
            self._strict,
        )

    def _identity(self, words: Sequence[str], cwd: str) -> str:
        return digest_programs(words, cwd, lambda word: self._resolve(word, cwd))

    def _fallback(self, agent_id: str) -> str:
        """The approvals file's fallback for an unanswered request; deny when absent."""
        document = self._approvals.read()
        own = document.agents.get(agent_id)
        return (own.ask_fallback if own else None) or document.defaults.ask_fallback or "deny"

    async def _asked(
        self, tool: Tool, wish: _CommandRequest, why: str, context: ToolContext, fallback: str, *, labelled: bool
    ) -> str | None:
        seen = self._seen(wish)
        grants = self._grants(wish)
        answer = await self._approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=tool.spec.name,
                command=wish.command,
                cwd=wish.cwd,
                agent_id=context.agent_id,
                session_key=context.session_key,
                why=f"{why}. {ALWAYS_NOTE}" if labelled and grants else why,
                origins=context.origins,
                standing=bool(grants),
            )
        )
        if answer.nobody and self._goes_on(wish, context.agent_id, fallback):
            return None
        if answer.decision == "deny":
            return _denied(answer)
        # The files may have been swapped while the person was reading.
        if self._seen(wish) != seen:
            return "Not run: a program or script in it was changed while the user was asked. Ask again."
        if answer.decision == "allow-always" and grants:
            self._approvals.allow(
                context.agent_id, [msgspec.to_builtins(grant) for grant in grants], millis(self._clock)
            )
            if labelled:
                what = ExactCommand(command=wish.command, cwd=wish.cwd, identity=seen)
                self._settled.add(context.session_key, what)
        return None

    def _grants(self, wish: _CommandRequest) -> tuple[ExecGrant, ...]:
        """What "always" would grant; nothing for code in an argument."""
        return grants_for(
            wish.command,
            wish.cwd,
            lambda word: self._resolve(word, wish.cwd),
            lambda: secrets.token_hex(4),
            lambda words: self._identity(words, wish.cwd),
            self._strict,
        )

    def _goes_on(self, wish: _CommandRequest, agent_id: str, fallback: str) -> bool:
        """Whether a command runs although nobody answered: always with `full`, if listed with `allowlist`."""
        return self._is_listed(wish, agent_id) if fallback == "allowlist" else fallback == "full"

    def _is_listed(self, wish: _CommandRequest, agent_id: str) -> bool:
        agent = self._approvals.read().agents.get(agent_id)
        grants = [_grant(entry) for entry in (agent.allowlist if agent else ())]
        ruling = self._judge(wish, "allowlist", "off", grants)
        return isinstance(ruling, Allow)

    def _resolve(self, word: str, cwd: str) -> str | None:
        """The program that `word` starts in `cwd`, links resolved."""
        places = [str(Path(cwd, place)) for place in self._path.split(os.pathsep)]
        found = shutil.which(str(Path(cwd, word)) if "/" in word else word, path=os.pathsep.join(places))
        return str(Path(found).resolve()) if found else None


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
    return (
        security if security in ("deny", "allowlist") else "full",
        ask if ask in ("on-miss", "always") else "off",
    )


def _workdir(args: Mapping[str, Any], context: ToolContext) -> Path:
    """The directory of the command, taken literally: what a person is shown must be where it runs."""
    given = str(args.get("workdir") or "")
    return context.workspace / (Path(given).expanduser() if given == "~" or given.startswith("~/") else given)


# The gate for labels.

SENDING: frozenset[ActionKind] = frozenset({"send", "fetch-composed"})
IRREVERSIBLE = SENDING | {"delete"}


class LabelGate(Struct, frozen=True):
    """Applies the label policy and the circuit breaker to every call, then the exec gate."""

    inner: ExecGate
    labels: RunLabels
    table: Table
    breaker: CircuitBreaker
    clock: Clock

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        effects = tool.effects(args)
        runs = Effects.RUNS_CODE in effects
        actions = self.labels.actions(tool, args, context)
        behind = self.labels.behind(tool, args, context) if runs else self.labels.origins
        context = structs.replace(context, origins=behind)
        ruling = labels_decide(actions, behind, self.table)
        if isinstance(ruling, Deny):
            return f"Not done: {ruling.why}. It is refused by the table of labels (security.externalContent)."
        cause = self._because(ruling.why, args) if isinstance(ruling, AskPerson) else ""
        counts = _counts(actions, args, runs=runs) if runs or not IRREVERSIBLE.isdisjoint(actions) else {}
        now = self.clock.now()
        tripped = {kind: why for kind, count in counts.items() if (why := self.breaker.tripped(kind, count, now))}
        bulk = "; ".join(tripped.values())
        if runs:
            refusal = await self.inner.admit(tool, args, context, cause, bulk)
        else:
            asks = cause or bulk
            refusal = await self.inner.ask(tool, args, context, _joined(cause, bulk)) if asks else None
        if refusal is None:
            if (cause or bulk) and Effects.WRITES_FILES in effects:
                self.labels.vouch(context.call_id)
            for kind in tripped:
                self.breaker.excused(kind)
            for kind, count in counts.items():
                self.breaker.count(kind, count, now)
        return refusal

    def _because(self, why: str, args: Mapping[str, Any]) -> str:
        asked = self.labels.asked_by(" ".join(strings(args)))
        return f"{why}. The text that seems to ask for it is from {asked}" if asked else why


def _counts(actions: Sequence[ActionKind], args: Mapping[str, Any], *, runs: bool) -> dict[Kind, int]:
    """How many irreversible actions of each kind a call performs."""
    command, patch = args.get("command"), args.get("input")
    gone = deletes(command) if runs and isinstance(command, str) else 0
    if "delete" in actions:
        gone += max(1, patch.count("*** Delete File:") if isinstance(patch, str) else 1)
    return {"deletes": gone, "sends": int(not SENDING.isdisjoint(actions))}
