"""Commands that act on a conversation and on what runs in it."""

import asyncio
import re
import uuid
from datetime import UTC, datetime
from typing import Any, Literal

from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, NotFound, Unavailable
from openclaw.core.keys import SessionKey
from openclaw.core.text import sanitize_line
from openclaw.models.service import ModelService
from openclaw.runs.commands.catalog import CommandHandler, CommandRequest, CommandResult
from openclaw.runs.control import SessionControl
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import RunRequest
from openclaw.runs.subagents import Subagent, SubagentService, SubagentTask, select_children
from openclaw.runs.worker import RunService
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog
from openclaw.sessions.files import load
from openclaw.sessions.history import rows_of, spoken_lines, to_markdown
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.service import SessionService
from openclaw.storage import atomic
from openclaw.workspace.seed import Workspaces

LOG_LINES = 12
LOG_CHARS = 300
SUBAGENTS_HELP = "write: /subagents list, info N, log N, kill N|all, send N TEXT, steer N TEXT or spawn TASK"


class SessionCommands:
    """Stops, renews, names, exports and steers a conversation, and the sub-agents below it."""

    def __init__(
        self,
        sessions: SessionService,
        control: SessionControl,
        lifecycle: SessionLifecycle,
        runs: RunService,
        models: ModelService,
        index: SessionIndex,
        subagents: SubagentService,
        workspaces: Workspaces,
        audit: AuditLog,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._control = control
        self._lifecycle = lifecycle
        self._runs = runs
        self._models = models
        self._index = index
        self._children = subagents
        self._workspaces = workspaces
        self._audit = audit
        self._clock = clock
        self.handlers: dict[str, CommandHandler] = {
            "stop": self._stop,
            "new": self._new,
            "reset": self._reset,
            "name": self._name,
            "compact": self._compact,
            "steer": self._steer,
            "send": self._send,
            "activation": self._activation,
            "subagents": self._subagents,
            "export-session": self._export,
            "trust": self._trust,
            "unfocus": self._unfocus,
        }

    async def _prefer(self, key: SessionKey, **chosen: Any) -> None:
        await self._lifecycle.prefer(key, chosen)
        await self._sessions.changed(key, "patch")

    async def _stop(self, call: CommandRequest) -> CommandResult:
        stopped = await self._control.stop(call.key, source=call.source)
        children = f"{stopped.children} sub-agent{'s' if stopped.children > 1 else ''}" if stopped.children else ""
        if not stopped.runs:
            return CommandResult(f"Stopped {children}." if children else "Nothing is running.")
        return CommandResult(f"Stopped ({len(stopped.runs)}){f', and {children}' if children else ''}.")

    async def _new(self, call: CommandRequest) -> CommandResult:
        return await self._start_over(call, "new")

    async def _reset(self, call: CommandRequest) -> CommandResult:
        word, _, rest = call.args.partition(" ")
        if word.lower() != "soft":
            return await self._start_over(call, "reset")
        said = await self._control.refresh(call.key, source=call.source)
        text = "What was said is kept; the next message starts with the files, skills and hooks as they are now."
        return CommandResult("\n\n".join((text, *said)), rest.strip())

    async def _start_over(self, call: CommandRequest, action: Literal["new", "reset"]) -> CommandResult:
        word, _, rest = call.args.partition(" ")
        situation, text = self._models.model_set(call.key.agent), "A new conversation. The old one is kept on disk."
        ref = situation.named(word)
        if ref is not None:
            situation.credentials(ref, self._sessions.now)
        _, said = await self._control.start_over(call.key, action, source=call.source)
        if ref is None:
            return CommandResult("\n\n".join((text, *said)), call.args)
        await self._prefer(call.key, model=str(ref))
        return CommandResult("\n\n".join((f"{text} Model: {ref}.", *said)), rest.strip())

    async def _name(self, call: CommandRequest) -> CommandResult:
        if not call.args:
            raise InvalidRequest("give a title: /name Holiday plans")
        await self._prefer(call.key, label=call.args[:512])
        return CommandResult(f"This conversation is called {call.args[:512]}.")

    async def _compact(self, call: CommandRequest) -> CommandResult:
        done = await self._control.compact(call.key, call.args)
        return CommandResult(f"{done.line[0].upper()}{done.line[1:]}.")

    async def _steer(self, call: CommandRequest) -> CommandResult:
        if not call.args:
            raise InvalidRequest("write: /steer what the run should know")
        if not self._runs.is_running(call.key):
            raise InvalidRequest("nothing is running to be steered: just write it")
        turn = RunRequest(run_id=str(uuid.uuid4()), key=call.key, text=call.args)
        sent = await self._runs.submit(turn, rules=QueueRules(mode="steer"))
        return CommandResult("The run is told." if sent.status == "steered" else "It is next, when the run has ended.")

    async def _send(self, call: CommandRequest) -> CommandResult:
        word = call.args.lower()
        if word and not call.owner:
            raise InvalidRequest("/send is for the owner")
        known = {"on": "allow", "off": "deny", "inherit": None, "default": None}
        if word and word not in known:
            raise InvalidRequest("write: /send on, off or inherit")
        if word:
            await self._prefer(call.key, send_policy=known[word])
        chosen = (await self._lifecycle.preferences(call.key)).send_policy
        said = {"allow": "on", "deny": "off: answers stay in the conversation"}.get(
            chosen or "", "as session.sendPolicy says"
        )
        return CommandResult(f"Answers to the channel: {said}.")

    async def _activation(self, call: CommandRequest) -> CommandResult:
        word = call.args.lower()
        if not call.key.is_group:
            raise InvalidRequest("/activation is for groups: here every message is answered")
        if word and not call.owner:
            raise InvalidRequest("/activation is for the owner")
        if word not in ("", "mention", "always", "default"):
            raise InvalidRequest("write: /activation mention, always or default")
        if word:
            await self._prefer(call.key, group_activation=None if word == "default" else word)
        chosen = (await self._lifecycle.preferences(call.key)).group_activation
        meaning = {"mention": "only messages that mention the assistant", "always": "every message"}
        return CommandResult(f"Answered in this group: {meaning.get(chosen or '', 'as channels.<name>.groups says')}.")

    async def _trust(self, call: CommandRequest) -> CommandResult:
        if not call.owner:
            raise InvalidRequest("/trust is for the owner: a client needs the scope operator.admin")
        if self._runs.active(call.key):
            raise Unavailable("this conversation is busy: write /trust when the answer is there, or /stop first")
        found = await self._sessions.origins(call.key)
        if not found:
            return CommandResult("Nothing in this conversation carries a label.")
        sources = "\n".join(f"{each.label}: {each.source}" for each in found)
        change = AuditChange(
            plugin="openclaw", hook="trust", field="labels", before=sources, note=f"/trust from {call.source or 'here'}"
        )
        await self._audit.record((change,), session_key=str(call.key))
        await self._lifecycle.trust(call.key, call.source)
        return CommandResult(
            f"Trusted from now on, in this conversation:\n{sources}\nWhat is read after this is labelled again. "
            "Files keep their labels: `openclaw labels list`."
        )

    async def _export(self, call: CommandRequest) -> CommandResult:
        kind = call.args.lower().lstrip(".") or "md"
        if kind not in ("md", "markdown", "jsonl"):
            page = f"`openclaw sessions export {call.key} --html` makes a page"
            raise InvalidRequest(f"write: /export-session md or jsonl; {page}")
        row = await self._index.get(call.key)
        path = await self._index.fetch(row.agent_id, row.session_id) if row else None
        if row is None or path is None or not path.exists():
            raise NotFound("nothing has been said in this conversation yet")
        name = re.sub(r"[^a-z0-9]+", "-", (row.title or call.key.rest).lower()).strip("-")[:40] or "conversation"
        stamp = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y%m%d-%H%M%S")
        target = (
            self._workspaces.of(call.key.agent) / "exports" / f"{name}-{stamp}.{'jsonl' if kind == 'jsonl' else 'md'}"
        )

        def write() -> None:
            if kind == "jsonl":
                atomic.replace_file(target, path.read_bytes())
                return
            messages = [each.message for each in rows_of(load(path).entries)]
            atomic.replace_file(target, to_markdown(row.title or str(call.key), messages, _when).encode())

        await asyncio.to_thread(write)
        return CommandResult(f"Written to {target}. Tool results may hold private data: look before you share it.")

    async def _unfocus(self, call: CommandRequest) -> CommandResult:
        child = self._children.roster.by_key(str(call.key))
        if child is None or not child.thread or child.archived:
            return CommandResult("This is not the thread of a sub-agent.")
        await self._children.let_go(child)
        return CommandResult("This thread is one like any other from now on.")

    async def _subagents(self, call: CommandRequest) -> CommandResult:
        action, _, rest = call.args.partition(" ")
        target, _, text = rest.strip().partition(" ")
        children = self._children.roster.of(str(call.key))
        match action.lower():
            case "" | "list":
                lines = [f"{number}. {self._line(child)}" for number, child in enumerate(children, 1)]
                return CommandResult("\n".join(lines) or "This conversation has no sub-agents.")
            case "spawn" if rest.strip():
                task = SubagentTask(parent=call.key, parent_run="", agent=call.key.agent, task=rest.strip())
                child = await self._children.spawn(task)
                return CommandResult(f"Started: {sanitize_line(child.name)}. Its result comes into this conversation.")
            case "kill" | "info" | "log" if target:
                chosen = select_children(children, target)
                if action.lower() == "kill":
                    stopped = sum([await self._children.kill(child) for child in chosen])
                    return CommandResult(f"Stopped {stopped} sub-agent{'s' if stopped != 1 else ''}.")
                show = self._info if action.lower() == "info" else self._log
                return CommandResult("\n\n".join([await show(child) for child in chosen]))
            case "steer" | "send" if target and text.strip():
                (child,) = select_children(children, target)[:1]
                if action.lower() == "steer":
                    await self._children.steer(child, text.strip())
                    return CommandResult(f"{sanitize_line(child.name)} starts again with that.")
                turn = RunRequest(
                    run_id=str(uuid.uuid4()), key=child.session, text=text.strip(), trigger="system", lane="subagent"
                )
                await self._runs.submit(turn, rules=QueueRules(mode="steer"))
                return CommandResult(f"{sanitize_line(child.name)} is told.")
        raise InvalidRequest(SUBAGENTS_HELP)

    def _line(self, child: Subagent) -> str:
        ended = child.ended_at or round(self._clock.now() * 1000)
        return f"{sanitize_line(child.name)}: {child.status}, {max(0, ended - child.created_at) // 1000} s"

    async def _info(self, child: Subagent) -> str:
        lines = [self._line(child), f"Run: {child.run_id}", f"Session: {child.key}", f"Task: {child.task[:LOG_CHARS]}"]
        if child.tokens:
            lines.append(f"Used: {child.tokens:,} tokens")
        if child.result:
            lines.append(f"Result: {child.result[:LOG_CHARS]}")
        return "\n".join(lines)

    async def _log(self, child: Subagent) -> str:
        _, loaded = await self._sessions.load(child.session)
        said = [line for row in rows_of(loaded.entries) for line in spoken_lines(row.message, True)] if loaded else []
        lines = [f"{who}: {' '.join(text.split())[:LOG_CHARS]}" for who, text in said[-LOG_LINES:]]
        return "\n".join((self._line(child), *(lines or ("Nothing was said there yet.",))))


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
