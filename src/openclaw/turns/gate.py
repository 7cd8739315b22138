"""The gate between a model's wish and its effect: policy decides, a person is asked, the answer is kept."""

import asyncio
import os
import secrets
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from openclaw.approvals.grants import ApprovalFile
from openclaw.approvals.identity import identity
from openclaw.core.approval import ApprovalAnswer, ApprovalRequest, Approver
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import StateError
from openclaw.core.tool import Effects, Tool, ToolContext
from openclaw.policy.execution import Allow, AskPerson, Deny, ExecGrant, Ruling, decide, grants_for, stricter, words_of
from openclaw.policy.narrowing import Ask, Security
from openclaw.turns.settled import AllowedExactly, Exactly

HERE = "Always: you are not asked about exactly this command again in this conversation"
"""What "always" adds where text from elsewhere made us ask."""


class _Wish(Struct, frozen=True, kw_only=True):
    """A command as a person must see it: all that decides what it does."""

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
        settled: AllowedExactly | None = None,
    ) -> None:
        self._strict = strict
        self._settled = settled or AllowedExactly()
        self._agents = agents or {}
        self._security: Security = security
        self._ask: Ask = ask
        self._safe_bins = safe_bins
        self._approvals = approvals
        self._approver = approver
        self._clock = clock
        self._path = path
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held while a question of a conversation is open, by session key; gone with the last one that waits."""

    async def admit(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, cause: str = "", bulk: str = ""
    ) -> str | None:
        """A `cause` asks a person even where the list would not, and `bulk` also about what was settled before."""
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
        wish = _Wish(command=_visible(args), cwd=str(cwd.resolve()), security=security, ask=ask)
        ruling = self._despite(wish, context, leaving, cause, bulk)
        if not isinstance(ruling, AskPerson):
            return _refusal(ruling)
        # In a conversation one question at a time, since the last answer may have settled this one. Other conversations
        # do not wait: a question nobody answers must not hold them up.
        async with self._asking.setdefault(context.session_key, asyncio.Lock()):
            ruling = self._despite(wish, context, leaving, cause, bulk)
            if not isinstance(ruling, AskPerson):
                return _refusal(ruling)
            fallback = "" if cause or bulk or leaving else self._fallback(context.agent_id)
            return await self._asked(tool, wish, ruling.why, context, fallback, labelled=bool(cause))

    def _despite(self, wish: _Wish, context: ToolContext, leaving: bool, cause: str, bulk: str) -> Ruling:
        """What the list says, unless there is a cause to ask all the same."""
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

    def _is_settled(self, wish: _Wish, context: ToolContext) -> bool:
        """Whether a person said "always" to this very command here, and has not taken it back since."""
        what = Exactly(command=wish.command, cwd=wish.cwd, identity=self._seen(wish))
        return self._settled.knows(context.session_key, what) and self._is_listed(wish, context.agent_id)

    def _seen(self, wish: _Wish) -> str:
        return self._identity(words_of(wish.command), wish.cwd)

    async def _inside(
        self, tool: Tool, args: Mapping[str, Any], context: ToolContext, cause: str, bulk: str
    ) -> str | None:
        """In a sandbox the box is what limits a command, not the list."""
        security, ask = stricter(self._effective(context.agent_id), _own_limits(args))
        if security == "deny":
            return "Not run: tools.exec.security is deny."
        by_hand = "every command is approved by hand" if ask == "always" else ""
        what = Exactly(command=_visible(args), cwd=str(args.get("workdir") or ""), boxed=True)
        settles = bool(cause) and "command" in args and not by_hand
        if settles and self._settled.knows(context.session_key, what):
            cause = ""
        if not (by_hand or cause or bulk):
            return None
        why = _joined(by_hand, cause, bulk)
        answer = await self._answer(tool, args, context, f"{why}. {HERE}" if settles else why, standing=settles)
        if settles and answer.decision == "allow-always":
            self._settled.add(context.session_key, what)
        return _denied(answer)

    async def _typed(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, cause: str) -> str | None:
        """What is typed to a running program can be anything, so no list knows it: a person does, or nobody."""
        security, ask = self._effective(context.agent_id)
        if security == "deny":
            return "Not run: tools.exec.security is deny."
        if security == "full" and ask == "off" and not cause:
            return None
        if ask == "off" and not cause:
            return "Not run: it is typed to a running program, and tools.exec.ask is off."
        return await self.ask(tool, args, context, cause or "it is typed to a running program")

    async def ask(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, why: str) -> str | None:
        """Asks a person about a call that is no command; the answer holds this once."""
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

    def _rule(self, wish: _Wish, agent_id: str, leaving: bool = False) -> Ruling:
        agent = self._approvals.read().agents.get(agent_id)
        security, ask = stricter(self._effective(agent_id), (wish.security, wish.ask))
        if leaving:  # the owner let this session out, and still sees what goes
            security, ask = stricter((security, ask), ("allowlist", "on-miss"))
        grants = [_grant(entry) for entry in (agent.allowlist if agent else ())]
        return self._judge(wish, security, ask, grants)

    def _judge(self, wish: _Wish, security: Security, ask: Ask, grants: Sequence[ExecGrant]) -> Ruling:
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
        return identity(words, cwd, lambda word: self._resolve(word, cwd))

    def _fallback(self, agent_id: str) -> str:
        """What the approvals file says for a question that nobody answers; absent means no."""
        document = self._approvals.read()
        own = document.agents.get(agent_id)
        return (own.ask_fallback if own else None) or document.defaults.ask_fallback or "deny"

    async def _asked(
        self, tool: Tool, wish: _Wish, why: str, context: ToolContext, fallback: str, *, labelled: bool
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
                why=f"{why}. {HERE}" if labelled and grants else why,
                origins=context.origins,
                standing=bool(grants),
            )
        )
        if answer.nobody and self._goes_on(wish, context.agent_id, fallback):
            return None
        if answer.decision == "deny":
            return _denied(answer)
        if self._seen(wish) != seen:
            return "Not run: a program or script in it was changed while the user was asked. Ask again."
        if answer.decision == "allow-always" and grants:
            self._approvals.allow(
                context.agent_id, [msgspec.to_builtins(grant) for grant in grants], millis(self._clock)
            )
            if labelled:
                what = Exactly(command=wish.command, cwd=wish.cwd, identity=seen)
                self._settled.add(context.session_key, what)
        return None

    def _grants(self, wish: _Wish) -> tuple[ExecGrant, ...]:
        """What "always" would mean; nothing for code in an argument."""
        return grants_for(
            wish.command,
            wish.cwd,
            lambda word: self._resolve(word, wish.cwd),
            lambda: secrets.token_hex(4),
            lambda words: self._identity(words, wish.cwd),
            self._strict,
        )

    def _goes_on(self, wish: _Wish, agent_id: str, fallback: str) -> bool:
        """Whether a command nobody answered for runs: all with `full`, what is listed with `allowlist`."""
        return self._is_listed(wish, agent_id) if fallback == "allowlist" else fallback == "full"

    def _is_listed(self, wish: _Wish, agent_id: str) -> bool:
        agent = self._approvals.read().agents.get(agent_id)
        grants = [_grant(entry) for entry in (agent.allowlist if agent else ())]
        ruling = self._judge(wish, "allowlist", "off", grants)
        return isinstance(ruling, Allow)

    def _resolve(self, word: str, cwd: str) -> str | None:
        """The program `word` starts in `cwd`, links followed."""
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
    """The command with the variables it is given: they are part of what is approved."""
    env = args.get("env") or {}
    exports = "".join(f"export {name}={shlex.quote(str(value))}; " for name, value in sorted(env.items()))
    return exports + str(args.get("command", ""))


def _own_limits(args: Mapping[str, Any]) -> tuple[Security, Ask]:
    """What a call asks for itself; it can only be stricter than what holds anyway."""
    security, ask = args.get("security"), args.get("ask")
    return (
        security if security in ("deny", "allowlist") else "full",
        ask if ask in ("on-miss", "always") else "off",
    )


def _workdir(args: Mapping[str, Any], context: ToolContext) -> Path:
    """Where the command runs. Only the literal name counts: what is shown to a person must be where it happens."""
    given = str(args.get("workdir") or "")
    return context.workspace / (Path(given).expanduser() if given == "~" or given.startswith("~/") else given)
