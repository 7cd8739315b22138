"""The tools `agents_list`, `sessions_spawn`, `sessions_yield` and `subagents`."""

import base64
import binascii
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct, structs

from openclaw.agent.settings import AgentsSettings, ModelChoiceSettings, agent_ids, resolve_agent
from openclaw.config.live import LiveConfig
from openclaw.core.channel import Address
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.keys import SessionKey, normalise_agent
from openclaw.core.settings import Live
from openclaw.core.text import Origin, sanitize_line
from openclaw.core.tool import Effects, Output, ToolContext, param, tool_spec
from openclaw.harnesses.acp.choice import PROVIDER, choose_agent
from openclaw.models import thinking
from openclaw.models.service import ModelService
from openclaw.runs.subagents import Subagent, SubagentService, SubagentTask, select_children
from openclaw.security.sandboxes.service import SandboxService
from openclaw.sessions.service import SessionService
from openclaw.storage import atomic
from openclaw.tools.base import SimpleTool, json_output, parse_args
from openclaw.tools.settings import AttachmentSettings, ToolsSettings
from openclaw.workspace.seed import Workspaces


class AgentsList(SimpleTool):
    """The `agents_list` tool."""

    spec = tool_spec("agents_list", "Agents", "agents you may start", "List the agents sessions_spawn may start.", {})

    def __init__(self, models: ModelService, agents_settings: Live[AgentsSettings]) -> None:
        self._models = models
        self._agents_settings = agents_settings

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        config = self._agents_settings.current
        allowed = allowed_agents(self._agents_settings, context.agent_id)
        any_agent = "*" in allowed
        rows = []
        for agent_id in agent_ids(config):
            if any_agent or agent_id in allowed or agent_id == context.agent_id:
                entry = resolve_agent(config, agent_id).entry
                name = entry.name or entry.identity.name
                situation = self._models.model_set(agent_id)
                model = str(situation.default)
                runtime = self._models.runtime(agent_id, situation.model(situation.default)).shown
                shown = {"id": agent_id, "configured": bool(config.list), "model": model, "agentRuntime": runtime}
                rows.append({**shown, **({"name": name} if name else {})})
        return json_output({"requester": context.agent_id, "allowAny": any_agent, "agents": rows})


def allowed_agents(agents_settings: Live[AgentsSettings], agent_id: str) -> tuple[str, ...]:
    """The agents an agent may start; itself when nothing is said."""
    config = agents_settings.current
    own = resolve_agent(config, agent_id).entry.subagents.allow_agents
    allowed = own if own is not None else config.defaults.subagents.allow_agents
    return allowed if allowed is not None else (agent_id,)


# `sessions_spawn`.

TITLE_CHARS = 80
_TASK_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_FILE_NAME = re.compile(r"[^\x00-\x1f/\\:]{1,128}\Z")
IN_THREAD = "It has a thread of its own, where it answers and people go on with it. Say so, and do not repeat its work."
NOTE = (
    "Its result comes to you as a message when it is done. Do not poll: go on with other work, or end your turn with "
    "sessions_yield."
)


_NO_SWARM = "results come to you one by one as messages; say in the task what to return"
_NO_PLACE = "a sub-agent works in its agent's workspace on this machine; use cwd, or a git worktree made with exec"
_NO_WINDOW = "sessions are listed everywhere as they are; leave it out"
UNSUPPORTED_PARAMS = {
    **dict.fromkeys(("collect", "outputSchema", "groupId"), _NO_SWARM),
    **dict.fromkeys(("worktree", "worktreeName", "worktreeBaseRef", "projectId", "projectGitUrl"), _NO_PLACE),
    "placement": _NO_PLACE,
    **dict.fromkeys(("visible", "group"), _NO_WINDOW),
    "fastMode": "choose a quicker model with model, or less thought with thinking",
    "lightContext": "a sub-agent carries only its task, AGENTS.md and TOOLS.md as it is",
}


class SpawnAttachment(Struct, frozen=True, rename="camel"):
    name: str
    content: str
    encoding: Literal["utf8", "base64"] = "utf8"
    mime_type: str = ""


class MountArgs(Struct, frozen=True, rename="camel"):
    mount_path: str = ""


class SpawnArgs(Struct, frozen=True, rename="camel"):
    task: Annotated[str, param("all it needs: goal, inputs, what to return")]
    label: Annotated[str, param("for people")] = ""
    task_name: Annotated[str, param("to refer to it: a-z, 0-9, _ and -")] = ""
    agent_id: Annotated[str, param("another agent, see agents_list")] = ""
    model: Annotated[str, param("provider/model or alias")] = ""
    thinking: Annotated[str, param("level")] = ""
    run_timeout_seconds: Annotated[int | None, param("0: never", minimum=0)] = None
    cwd: Annotated[str, param("inside the workspace")] = ""
    runtime: Annotated[str, param("acp: the external coding agent agentId", enum=["subagent", "acp", "codex"])] = (
        "subagent"
    )
    resume_session_id: Annotated[str, param("acp: continue this session of the agent")] = ""
    mode: Annotated[Literal["run", "session"] | None, param("session: keep it for more tasks")] = None
    thread: Annotated[bool | None, param("a thread of this chat for it, where people go on with it")] = None
    stream_to: Annotated[Literal["parent"] | None, param("be told what it does meanwhile")] = None
    cleanup: Annotated[Literal["keep", "delete"], param("its session, afterwards")] = "keep"
    sandbox: Annotated[Literal["inherit", "require"], param("Demand a sandbox")] = "inherit"
    context: Annotated[Literal["isolated", "fork"] | None, param("fork: with this conversation")] = None
    attach_as: Annotated[MountArgs, param("Where files are put: a directory of the workspace")] = MountArgs()
    expects_completion_message: Annotated[bool | None, param("Be told of its end (default true)")] = None
    completion_target: Annotated[str, param("Who is told: you", enum=["parent"])] = "parent"
    attachments: Annotated[tuple[SpawnAttachment, ...], param("Files for it", maxItems=50)] = ()


class SessionsSpawn(SimpleTool):
    """The `sessions_spawn` tool."""

    spec = tool_spec(
        "sessions_spawn",
        "Spawn",
        "start a sub-agent for a task of its own",
        "Start a sub-agent. Returns at once; the result comes to you as a message. It knows only the task and the "
        "attachments.",
        SpawnArgs,
        aliases={"timeoutSeconds": "runTimeoutSeconds"},
        absent=UNSUPPORTED_PARAMS,
        rare=(
            "label",
            "taskName",
            "thinking",
            "mode",
            "thread",
            "streamTo",
            "runTimeoutSeconds",
            "cwd",
            "cleanup",
            "sandbox",
            "context",
            "attachAs",
            "expectsCompletionMessage",
            "completionTarget",
            "attachments",
            "resumeSessionId",
        ),
    )

    def __init__(
        self,
        sessions: SessionService,
        models: ModelService,
        workspaces: Workspaces,
        sandboxes: SandboxService,
        live: LiveConfig,
        agents_settings: Live[AgentsSettings],
        tools_settings: Live[ToolsSettings],
        subagents: SubagentService,
    ) -> None:
        self._sessions = sessions
        self._models = models
        self._workspaces = workspaces
        self._sandboxes = sandboxes
        self._live = live
        self._agents_settings = agents_settings
        self._tools_settings = tools_settings
        self._subagents = subagents

    def effects(self, args: Mapping[str, Any]) -> Effects:
        # What an external agent is told leaves this machine's control.
        return Effects.SENDS_OUT if args.get("runtime") == "acp" else Effects.DELEGATES

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse_args(args, SpawnArgs)
        try:
            agent = context.agent_id if wanted.runtime == "acp" else self._agent(wanted, context.agent_id)
        except OpenClawError as error:
            return json_output({"status": "forbidden", "error": error.message}, failed=True)
        try:
            child, model, forked = await self._start(wanted, agent, context)
        except OpenClawError as error:
            return json_output({"status": "error", "error": error.message}, failed=True)
        return json_output(
            {
                "status": "accepted",
                "childSessionKey": child.key,
                "runId": child.run_id,
                "mode": "session" if child.thread else wanted.mode or "run",
                "context": "fork" if forked else "isolated",
                "expectsCompletionMessage": child.expected,
                "taskName": child.task_name or None,
                "resolvedModel": model,
                **({"thread": True} if child.thread else {}),
                "note": NOTE if child.expected else IN_THREAD if child.thread else "",
            }
        )

    def _agent(self, wanted: SpawnArgs, own: str) -> str:
        config = self._agents_settings.current
        if not wanted.agent_id:
            entry = resolve_agent(config, own).entry
            if entry.subagents.require_agent_id or config.defaults.subagents.require_agent_id:
                raise InvalidRequest("agentId is missing: agents_list shows which agents you may start")
            return own
        agent = resolve_agent(config, wanted.agent_id).id
        allowed = allowed_agents(self._agents_settings, own)
        if agent != own and "*" not in allowed and agent not in {normalise_agent(name) for name in allowed}:
            raise InvalidRequest(f"{own} may not start {agent}: subagents.allowAgents does not name it")
        return agent

    async def _start(self, wanted: SpawnArgs, agent: str, context: ToolContext) -> tuple[Subagent, str, bool]:
        _check(wanted)
        if wanted.context == "fork" and agent != self._sessions.key(context.session_key).agent:
            raise InvalidRequest("context fork: another agent does not get this conversation; put it into the task.")
        child_key = SessionKey(agent, "subagent:new")
        self._sandboxes.check_child(
            self._sessions.key(context.session_key), child_key, required=wanted.sandbox == "require"
        )
        defaults = self._agents_settings.current.defaults.subagents
        own = resolve_agent(self._agents_settings.current, agent).entry.subagents
        external = wanted.runtime == "acp"
        if external:
            if self._sandboxes.of(self._sessions.key(context.session_key)) is not None:
                raise InvalidRequest("runtime acp: an external agent works on the host, and this session may not.")
            named: str | None = None
            ref: Any = f"{PROVIDER}/{choose_agent(self._live.current.config.acp, wanted.agent_id)}"
        else:
            situation = self._models.model_set(agent)
            named = wanted.model or _primary(own.model) or _primary(defaults.model)
            ref = situation.resolve(named) if named else situation.default
        level = wanted.thinking or own.thinking or defaults.thinking
        limit = defaults.run_timeout_seconds if wanted.run_timeout_seconds is None else wanted.run_timeout_seconds
        notes = []
        workspace = self._workspaces.of(agent)
        if wanted.cwd:
            notes.append(f"Work in {self._sandboxes.place(child_key, _inside(workspace, wanted.cwd))}.")
        files = ""
        if wanted.attachments:
            limits = self._tools_settings.current.sessions_spawn.attachments
            files = _deliver(workspace, wanted.attachments, limits, wanted.attach_as.mount_path)
            there = self._sandboxes.place(child_key, files)
            notes.append(f"Files for you are in {there}: {', '.join(each.name for each in wanted.attachments)}.")
        parent = self._sessions.key(context.session_key)
        thread = await self._thread(wanted, parent, context.run_id)
        usual = self._live.current.config.session.thread_bindings.default_spawn_context
        forked = wanted.context == "fork"
        if wanted.context is None and thread is not None and not external and agent == parent.agent:
            forked = usual == "fork"
        told = wanted.expects_completion_message
        errand = SubagentTask(
            parent=parent,
            parent_run=context.run_id,
            agent=agent,
            task=wanted.task,
            label=wanted.label.strip(),
            task_name=wanted.task_name,
            model=str(ref) if named else None,
            thinking=thinking.parse(level) if level else None,
            timeout=float(limit),
            tools=context.tools,
            keeps=wanted.cleanup == "keep" or wanted.mode == "session" or thread is not None,
            # Who reads the thread reads the answer there.
            expected=thread is None if told is None else told,
            thread=thread,
            streams=wanted.stream_to == "parent",
            files=files,
            notes=tuple(notes),
            origins=context.origins,
            external=external,
            fork=forked,
            preferences={
                "agent_runtime": str(ref) if external else "codex" if wanted.runtime == "codex" else None,
                "resume_session_id": wanted.resume_session_id or None,
            },
        )
        child = await self._subagents.spawn(errand)
        await self._sessions.changed(child.session, "create")
        return child, str(ref), forked

    async def _thread(self, wanted: SpawnArgs, parent: SessionKey, run_id: str) -> Address | None:
        self._subagents.check_room(parent)
        title = wanted.label.strip() or wanted.task_name or " ".join(wanted.task.split())
        coder = wanted.runtime != "subagent" and wanted.mode != "run"
        return await self._subagents.threads.open(
            run_id, sanitize_line(title)[:TITLE_CHARS], wanted=wanted.thread, coder=coder
        )


def _check(wanted: SpawnArgs) -> None:
    if not wanted.task.strip():
        raise InvalidRequest("The task is empty: say what is to be done.")
    if wanted.runtime not in ("subagent", "acp", "codex"):
        raise InvalidRequest(f"runtime {wanted.runtime!r} is not available: it is subagent, acp or codex.")
    if wanted.resume_session_id and wanted.runtime != "acp":
        raise InvalidRequest("resumeSessionId needs runtime acp: only external agents have sessions of their own.")
    if wanted.thread and wanted.mode == "run":
        raise InvalidRequest("thread: what is bound to a thread stays there: leave mode out, or say session.")
    if wanted.context == "fork" and wanted.runtime == "acp":
        raise InvalidRequest("context fork: an external agent begins without a conversation; put it into the task.")
    if wanted.task_name and (not _TASK_NAME.match(wanted.task_name) or wanted.task_name in ("last", "all")):
        raise InvalidRequest("taskName is a-z, 0-9, _ and -, starts with a letter, and is not last or all.")


def _primary(model: str | ModelChoiceSettings | None) -> str | None:
    return model.primary if isinstance(model, ModelChoiceSettings) else model


def _inside(workspace: Path, given: str) -> str:
    path = (workspace / given).resolve()
    if not path.is_relative_to(workspace.resolve()) or not path.is_dir():
        raise InvalidRequest("cwd must be a directory inside the workspace.")
    return str(path)


def _deliver(workspace: Path, files: Sequence[SpawnAttachment], limits: AttachmentSettings, mount: str = "") -> str:
    """Writes the files for a sub-agent; checks all of them before it writes the first."""
    if not limits.enabled:
        raise InvalidRequest("Attachments are switched off (tools.sessions_spawn.attachments.enabled).")
    if len(files) > limits.max_files:
        raise InvalidRequest(f"{len(files)} attachments are too many: at most {limits.max_files}.")
    contents: dict[str, bytes] = {}
    for file in files:
        if not _FILE_NAME.match(file.name) or file.name.startswith(".") or file.name in contents:
            raise InvalidRequest(f"{file.name[:60]!r} is not a usable file name: no paths, no dot in front, each once.")
        contents[file.name] = _bytes(file)
        if len(contents[file.name]) > limits.max_file_bytes:
            raise InvalidRequest(f"{file.name} is larger than {limits.max_file_bytes} bytes.")
    if sum(map(len, contents.values())) > limits.max_total_bytes:
        raise InvalidRequest(f"The attachments together are larger than {limits.max_total_bytes} bytes.")
    place = (workspace / (mount or f".openclaw/attachments/{uuid.uuid4()}")).resolve()
    if not place.is_relative_to(workspace.resolve()) or place.exists():
        raise InvalidRequest("attachAs.mountPath must be a new directory inside the workspace.")
    place.mkdir(parents=True, mode=0o700)
    for name, content in contents.items():
        atomic.replace_file(place / name, content, mode=0o600)
    return str(place)


def _bytes(file: SpawnAttachment) -> bytes:
    if file.encoding == "utf8":
        return file.content.encode()
    try:
        return base64.b64decode(file.content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{file.name} is not valid base64.") from error


# `sessions_yield`.


class SessionsYield(SimpleTool):
    """The `sessions_yield` tool."""

    spec = tool_spec(
        "sessions_yield",
        "Yield",
        "end this turn and wait for sub-agent results",
        "End your turn after starting sub-agents; their results come as the next message when all have ended.",
        {"message": {"type": "string", "description": "what you wait for"}},
        absent={
            "waitFor": "this waits for sub-agents only; to wait for a person, end your turn with your answer",
            "acknowledgment": "say it before you call this",
        },
    )

    def __init__(self, sessions: SessionService, subagents: SubagentService) -> None:
        self._sessions = sessions
        self._subagents = subagents

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        key = self._sessions.key(context.session_key)
        own = await self._subagents.wait_together(key, context.run_id)
        if own:
            waiting = [child.run_id for child in own]
            told = json_output({"status": "yielded", "waitingFor": waiting}, ends_run=True)
            return structs.replace(told, yields=True)
        if self._subagents.roster.running(str(key)):
            return json_output(
                {
                    "status": "already_pending",
                    "note": "The running sub-agents belong to an earlier turn; their results come by themselves. "
                    "Finish your answer.",
                }
            )
        raise InvalidRequest(
            "No pending child completion is owned by this turn: start one with sessions_spawn first, or just answer."
        )


# `subagents`.


class SubagentsArgs(Struct, frozen=True, rename="camel"):
    action: Annotated[
        Literal["list", "wait", "cancel", "kill", "steer"],
        param("What to do (default list)", enum=["list", "kill", "steer", "wait", "cancel"]),
    ] = "list"
    target: Annotated[
        str, param("kill, steer: a number of the list, task name, label, run id, session key, last or all")
    ] = ""
    message: Annotated[str, param("steer: what it is to do now")] = ""
    recent_minutes: Annotated[int, param("list: ended ones of so many minutes", minimum=1)] = 30
    task_id: Annotated[str, param("cancel: the same as target")] = ""
    task_ids: Annotated[tuple[str, ...], param("wait: which (default all)", minItems=1, maxItems=32)] = ()
    timeout_seconds: Annotated[int, param("wait: how long", minimum=0, maximum=60)] = 30


class SubagentsTool(SimpleTool):
    """The `subagents` tool."""

    spec = tool_spec(
        "subagents",
        "Sub-agents",
        "list, steer or stop your sub-agents",
        "Your sub-agents: list them, steer one (it is interrupted and goes on with your message), kill one or all, "
        "wait for some. Results come by themselves: do not list in a loop.",
        SubagentsArgs,
    )

    def __init__(self, sessions: SessionService, subagents: SubagentService) -> None:
        self._sessions = sessions
        self._subagents = subagents

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse_args(args, SubagentsArgs)
        children = self._subagents.roster.of(context.session_key)
        match wanted.action:
            case "list":
                return self._list(context.session_key, children, wanted.recent_minutes)
            case "wait":
                chosen = [each for name in wanted.task_ids for each in select_children(children, name)] or children
                done = await self._subagents.settled(chosen, min(wanted.timeout_seconds, 60))
                now = [_row(self._subagents.roster.get(each.run_id), self._sessions.now) for each in chosen]
                return json_output({"status": "ok" if done else "timeout", "action": "wait", "tasks": now})
            case "steer":
                return await self._steer(children, wanted, context.origins)
        target = wanted.target or wanted.task_id
        if not target.strip():
            raise InvalidRequest("Say which: target is a number, name, run id, session key, last or all.")
        ended = sum([await self._subagents.kill(child) for child in select_children(children, target)])
        return json_output({"status": "ok", "action": wanted.action, "killed": ended})

    async def _steer(self, children: Sequence[Subagent], wanted: SubagentsArgs, origins: tuple[Origin, ...]) -> Output:
        if not wanted.target.strip() or not wanted.message.strip():
            raise InvalidRequest("steer needs a target and a message.")
        found = select_children(children, wanted.target)
        if len(found) != 1:
            raise InvalidRequest("Steer one sub-agent at a time.")
        child = await self._subagents.steer(found[0], wanted.message, origins)
        return json_output({"status": "accepted", "action": "steer", "runId": child.current, "sessionKey": child.key})

    def _list(self, key: str, children: Sequence[Subagent], minutes: int) -> Output:
        since = self._sessions.now - minutes * 60_000
        active = [each for each in children if each.status == "running"]
        recent = [each for each in children if each.status != "running" and each.ended_at >= since]
        numbers = {each.run_id: place for place, each in enumerate(children, 1)}
        lines = [f"{numbers[each.run_id]}. {each.name}: {each.status}" for each in (*active, *recent)]
        caller = self._sessions.key(key)
        return json_output(
            {
                "status": "ok",
                "action": "list",
                "requesterSessionKey": key,
                "callerSessionKey": key,
                "callerIsSubagent": caller.is_subagent,
                "total": len(children),
                "active": [_row(each, self._sessions.now) for each in active],
                "recent": [_row(each, self._sessions.now) for each in recent],
                "text": "\n".join(lines) or "No sub-agents.",
            }
        )


def _row(child: Subagent, now: int) -> dict[str, Any]:
    return {
        "runId": child.run_id,
        "sessionKey": child.key,
        "label": child.name,
        "taskName": child.task_name or None,
        "status": child.status,
        "depth": child.depth,
        "runtimeMs": max(0, (child.ended_at or now) - child.created_at),
        "totalTokens": child.tokens,
    }
