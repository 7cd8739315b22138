"""What several answers amount to: every point, every rule, by table."""

from typing import Any

import pytest

from openclaw.core.hook_points import POINTS
from openclaw.core.hooks import (
    AgentStart,
    BeforeAgentReply,
    BeforeAgentStart,
    BeforeInstall,
    BeforeModelResolve,
    BeforePromptBuild,
    BeforeToolCall,
    InstallFinding,
    InstallVerdict,
    MessageSending,
    ModelChoice,
    PersistedResult,
    PromptChange,
    ReplyClaim,
    RequireApproval,
    SendingVerdict,
    ToolResultPersist,
    ToolVerdict,
)
from openclaw.core.messages import Text, ToolResult
from openclaw.core.text import make_origin
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.points import LONGEST_TEXT, HookRegistration, HookSource
from openclaw.plugins.settings import HookSettings

FREE = HookSettings(allow_prompt_replace=True, allow_model_override=True, allow_conversation_access=True)
BARE = HookSettings()
QUIET = HookSettings(allow_prompt_injection=False, allow_prompt_replace=True)

Saying = tuple[str, HookSettings, Any]


def decided(point: points.HookPoint[Any, Any, Any], event: Any, *sayings: Saying) -> Any:
    """The answers in the order of the table, as the dispatcher would put them together."""
    merged = point.start(event)
    for plugin, settings, answer in sayings:
        by = HookRegistration(plugin=plugin, hook=point.name, handler=print, settings=settings)
        merged = point.step(merged, by, answer)
        if point.over(merged):
            break
    return merged


def fields(merged: Any) -> list[tuple[str, str, bool]]:
    return [(change.plugin, change.field, not change.refused) for change in merged.changes]


MODEL_RULES: list[tuple[str, list[Saying], str, str, list[tuple[str, str, bool]]]] = [
    ("nobody answers", [], "", "", []),
    ("an empty wish is none", [("a", FREE, ModelChoice(model_override=""))], "", "", []),
    ("one wish", [("a", FREE, ModelChoice(model_override="x/m"))], "x/m", "", [("a", "modelOverride", True)]),
    (
        "the first model wins",
        [("a", FREE, ModelChoice(model_override="x/m")), ("b", FREE, ModelChoice(model_override="y/n"))],
        "x/m",
        "",
        [("a", "modelOverride", True), ("b", "modelOverride", False)],
    ),
    (
        "model and provider are chosen apart",
        [("a", FREE, ModelChoice(model_override="m")), ("b", FREE, ModelChoice(provider_override="y"))],
        "m",
        "y",
        [("a", "modelOverride", True), ("b", "providerOverride", True)],
    ),
    (
        "without leave the next one counts",
        [("a", BARE, ModelChoice(model_override="x/m")), ("b", FREE, ModelChoice(model_override="y/n"))],
        "y/n",
        "",
        [("a", "modelOverride", False), ("b", "modelOverride", True)],
    ),
]


@pytest.mark.parametrize(
    ("sayings", "model", "provider", "told"), [rule[1:] for rule in MODEL_RULES], ids=[r[0] for r in MODEL_RULES]
)
def test_before_model_resolve(sayings: list[Saying], model: str, provider: str, told: list[Any]) -> None:
    merged = decided(points.MODEL, BeforeModelResolve(prompt="hi"), *sayings)
    assert (merged.model.text if merged.model else "") == model
    assert (merged.provider.text if merged.provider else "") == provider
    assert fields(merged) == told


@pytest.mark.parametrize(
    ("bundled", "settings", "allowed"),
    [
        (True, BARE, True),
        (False, BARE, False),
        (True, HookSettings(allow_model_override=False), False),
        (False, HookSettings(allow_model_override=True), True),
    ],
)
def test_what_comes_with_openclaw_may_choose_a_model_unless_told_otherwise(
    bundled: bool, settings: HookSettings, allowed: bool
) -> None:
    by = HookRegistration(plugin="p", hook=points.MODEL.name, handler=print, settings=settings, bundled=bundled)
    start = points.MODEL.start(BeforeModelResolve(prompt=""))
    merged = points.MODEL.step(start, by, ModelChoice(model_override="x/m"))
    assert (merged.model is not None) is allowed


def adds(name: str, text: str) -> PromptChange:
    given: dict[str, Any] = {name: text}
    return PromptChange(**given)


PROMPT_RULES: list[tuple[str, list[Saying], dict[str, Any], list[tuple[str, str, bool]]]] = [
    ("nobody answers", [], {}, []),
    ("blank text is none", [("a", FREE, PromptChange(prepend_context="  \n"))], {}, []),
    *(
        (
            f"{wire} adds up in order",
            [("a", BARE, adds(name, "one")), ("b", BARE, adds(name, "two"))],
            {kept: (HookSource("a", "one"), HookSource("b", "two"))},
            [("a", wire, True), ("b", wire, True)],
        )
        for name, kept, wire in (
            ("prepend_context", "prepend_context", "prependContext"),
            ("append_context", "append_context", "appendContext"),
            ("prepend_system_context", "prepend_system", "prependSystemContext"),
            ("append_system_context", "append_system", "appendSystemContext"),
        )
    ),
    (
        "the last whole prompt counts",
        [("a", FREE, PromptChange(system_prompt="A")), ("b", FREE, PromptChange(system_prompt="B"))],
        {"system": HookSource("b", "B")},
        [("a", "systemPrompt", True), ("b", "systemPrompt", True)],
    ),
    (
        "a whole prompt needs leave",
        [("a", FREE, PromptChange(system_prompt="A")), ("b", BARE, PromptChange(system_prompt="B"))],
        {"system": HookSource("a", "A")},
        [("a", "systemPrompt", True), ("b", "systemPrompt", False)],
    ),
    (
        "no text at all where injection is off",
        [("a", QUIET, PromptChange(system_prompt="A", append_context="x"))],
        {},
        [("a", "appendContext", False), ("a", "systemPrompt", False)],
    ),
    (
        "text without end is refused",
        [("a", FREE, PromptChange(prepend_context="x" * (LONGEST_TEXT + 1)))],
        {},
        [("a", "prependContext", False)],
    ),
    (
        "tools are those on every list",
        [("a", BARE, PromptChange(tools_allow=("read", "exec"))), ("b", BARE, PromptChange(tools_allow=("read",)))],
        {"tools_allow": (("read", "exec"), ("read",))},
        [("a", "toolsAllow", True), ("b", "toolsAllow", True)],
    ),
]


@pytest.mark.parametrize("legacy", [False, True], ids=["before_prompt_build", "before_agent_start"])
@pytest.mark.parametrize(
    ("sayings", "kept", "told"), [rule[1:] for rule in PROMPT_RULES], ids=[r[0] for r in PROMPT_RULES]
)
def test_prompts(sayings: list[Saying], kept: dict[str, Any], told: list[Any], legacy: bool) -> None:
    if legacy:
        sayings = [(who, may, AgentStart(**_given(answer))) for who, may, answer in sayings]
        merged = decided(points.PROMPT_LEGACY, BeforeAgentStart(prompt="hi"), *sayings)
    else:
        merged = decided(points.PROMPT, BeforePromptBuild(prompt="hi"), *sayings)
    empty = points.PROMPT.start(BeforePromptBuild(prompt=""))
    for name in ("system", "prepend_context", "append_context", "prepend_system", "append_system", "tools_allow"):
        assert getattr(merged, name) == kept.get(name, getattr(empty, name)), name
    assert fields(merged) == told


def test_the_legacy_point_chooses_models_by_the_same_rule() -> None:
    wishes = [("a", FREE, AgentStart(model_override="m")), ("b", FREE, AgentStart(model_override="n"))]
    merged = decided(points.MODEL_LEGACY, BeforeAgentStart(prompt=""), *wishes)
    assert merged.model == HookSource("a", "m")


REPLY_RULES: list[tuple[str, list[Saying], str, str]] = [
    ("nobody claims", [("a", BARE, ReplyClaim(reply="ignored"))], "", ""),
    ("a claim with words", [("a", BARE, ReplyClaim(handled=True, reply="hello"))], "a", "hello"),
    ("a claim without words is silence", [("a", BARE, ReplyClaim(handled=True))], "a", ""),
    (
        "the first claim wins",
        [
            ("a", BARE, ReplyClaim(handled=False)),
            ("b", BARE, ReplyClaim(handled=True, reply="b")),
            ("c", BARE, ReplyClaim(handled=True, reply="c")),
        ],
        "b",
        "b",
    ),
]


@pytest.mark.parametrize(
    ("sayings", "plugin", "text"), [rule[1:] for rule in REPLY_RULES], ids=[r[0] for r in REPLY_RULES]
)
def test_before_agent_reply(sayings: list[Saying], plugin: str, text: str) -> None:
    merged = decided(points.REPLY, BeforeAgentReply(cleaned_body="hi"), *sayings)
    assert (merged.plugin, merged.reply) == (plugin, text)
    assert len(merged.changes) == bool(plugin)


ASK = RequireApproval(title="sure?")
TOOL_RULES: list[tuple[str, list[Saying], dict[str, Any], HookSource | None, str, list[tuple[str, str, bool]]]] = [
    ("nobody minds", [("a", BARE, ToolVerdict())], {"n": 0}, None, "", []),
    (
        "the last arguments count",
        [("a", BARE, ToolVerdict(params={"n": 1})), ("b", BARE, ToolVerdict(params={"n": 2}))],
        {"n": 2},
        None,
        "",
        [("a", "params", True), ("b", "params", True)],
    ),
    ("the same arguments are no change", [("a", BARE, ToolVerdict(params={"n": 0}))], {"n": 0}, None, "", []),
    (
        "a block ends it",
        [("a", BARE, ToolVerdict(block=True, block_reason="no")), ("b", BARE, ToolVerdict(params={"n": 2}))],
        {"n": 0},
        HookSource("a", "no"),
        "",
        [("a", "block", True)],
    ),
    (
        "a block needs no reason",
        [("a", BARE, ToolVerdict(block=True))],
        {"n": 0},
        HookSource("a", "no reason given"),
        "",
        [("a", "block", True)],
    ),
    (
        "false takes nothing back",
        [("a", BARE, ToolVerdict(require_approval=ASK)), ("b", BARE, ToolVerdict(block=False))],
        {"n": 0},
        None,
        "a",
        [("a", "requireApproval", True)],
    ),
    (
        "an approval freezes the arguments",
        [("a", BARE, ToolVerdict(params={"n": 1}, require_approval=ASK)), ("b", BARE, ToolVerdict(params={"n": 2}))],
        {"n": 1},
        None,
        "a",
        [("a", "params", True), ("a", "requireApproval", True), ("b", "params", False)],
    ),
    (
        "the first approval asked for is the one",
        [
            ("a", BARE, ToolVerdict(require_approval=ASK)),
            ("b", BARE, ToolVerdict(require_approval=RequireApproval(title="b"))),
        ],
        {"n": 0},
        None,
        "a",
        [("a", "requireApproval", True)],
    ),
    (
        "a block after an approval still blocks",
        [("a", BARE, ToolVerdict(require_approval=ASK)), ("b", BARE, ToolVerdict(block=True, block_reason="no"))],
        {"n": 0},
        HookSource("b", "no"),
        "a",
        [("a", "requireApproval", True), ("b", "block", True)],
    ),
]


@pytest.mark.parametrize(
    ("sayings", "params", "blocked", "asks", "told"), [rule[1:] for rule in TOOL_RULES], ids=[r[0] for r in TOOL_RULES]
)
def test_before_tool_call(
    sayings: list[Saying], params: dict[str, Any], blocked: HookSource | None, asks: str, told: list[Any]
) -> None:
    merged = decided(points.TOOL, BeforeToolCall(tool_name="exec", params={"n": 0}), *sayings)
    assert (merged.params, merged.blocked, merged.approval_by) == (params, blocked, asks)
    assert fields(merged) == told


FINDING = InstallFinding(rule_id="r", severity="warn", message="m")
INSTALL_RULES: list[tuple[str, list[Saying], str, int]] = [
    ("nobody minds", [("a", BARE, InstallVerdict())], "", 0),
    (
        "findings add up",
        [("a", BARE, InstallVerdict(findings=(FINDING,))), ("b", BARE, InstallVerdict(findings=(FINDING,)))],
        "",
        2,
    ),
    (
        "a block ends it",
        [("a", BARE, InstallVerdict(block=True)), ("b", BARE, InstallVerdict(findings=(FINDING,)))],
        "a",
        0,
    ),
    (
        "false takes nothing back",
        [("a", BARE, InstallVerdict(block=True)), ("b", BARE, InstallVerdict(block=False))],
        "a",
        0,
    ),
]


@pytest.mark.parametrize(
    ("sayings", "blocked", "findings"), [rule[1:] for rule in INSTALL_RULES], ids=[r[0] for r in INSTALL_RULES]
)
def test_before_install(sayings: list[Saying], blocked: str, findings: int) -> None:
    event = BeforeInstall(target_type="skill", target_name="s", source_path="/s", spec="s", tree_sha256="0")
    merged = decided(points.INSTALL, event, *sayings)
    assert (merged.blocked.plugin if merged.blocked else "") == blocked
    assert len(merged.findings) == findings
    # Even asked beyond its end, a later `false` or another block changes nothing.
    if blocked:
        by = HookRegistration(plugin="z", hook=points.INSTALL.name, handler=print)
        again = points.INSTALL.step(merged, by, InstallVerdict(block=True, block_reason="z"))
        assert again.blocked == merged.blocked


FOREIGN = (make_origin("external", "web_fetch https://example.org"),)


def result(text: str, **more: Any) -> ToolResult:
    return ToolResult(
        **{
            "tool_call_id": "c1",
            "tool_name": "read",
            "content": (Text(text),),
            "timestamp": 5,
            "origins": FOREIGN,
            **more,
        }
    )


RESULT_RULES: list[tuple[str, list[Saying], ToolResult, int]] = [
    ("nobody changes it", [("a", BARE, PersistedResult())], result("secret"), 0),
    ("the same again is no change", [("a", BARE, PersistedResult(message=result("secret")))], result("secret"), 0),
    ("it is replaced", [("a", BARE, PersistedResult(message=result("•••")))], result("•••"), 1),
    (
        "one after the other",
        [("a", BARE, PersistedResult(message=result("x"))), ("b", BARE, PersistedResult(message=result("y")))],
        result("y"),
        2,
    ),
    (
        "whose answer it is stays as it was",
        [
            (
                "a",
                BARE,
                PersistedResult(message=result("x", tool_call_id="other", tool_name="exec", timestamp=9, origins=())),
            )
        ],
        result("x"),
        1,
    ),
]


@pytest.mark.parametrize(
    ("sayings", "kept", "changes"), [rule[1:] for rule in RESULT_RULES], ids=[r[0] for r in RESULT_RULES]
)
def test_tool_result_persist(sayings: list[Saying], kept: ToolResult, changes: int) -> None:
    event = ToolResultPersist(tool_name="read", tool_call_id="c1", message=result("secret"))
    merged = decided(points.RESULT, event, *sayings)
    assert merged.message == kept
    assert len(merged.changes) == changes
    assert points.RESULT.view(event, merged).message == kept


SENDING_RULES: list[tuple[str, list[Saying], str, str, list[tuple[str, str, bool]]]] = [
    ("nobody minds", [("a", BARE, SendingVerdict())], "hi", "", []),
    ("the same words are no change", [("a", BARE, SendingVerdict(content="hi"))], "hi", "", []),
    (
        "the last words count",
        [("a", BARE, SendingVerdict(content="A")), ("b", BARE, SendingVerdict(content="B"))],
        "B",
        "",
        [("a", "content", True), ("b", "content", True)],
    ),
    (
        "a cancel ends it",
        [("a", BARE, SendingVerdict(cancel=True)), ("b", BARE, SendingVerdict(content="B"))],
        "hi",
        "a",
        [("a", "cancel", True)],
    ),
    (
        "false takes nothing back",
        [("a", BARE, SendingVerdict(cancel=True)), ("b", BARE, SendingVerdict(cancel=False))],
        "hi",
        "a",
        [("a", "cancel", True)],
    ),
]


@pytest.mark.parametrize(
    ("sayings", "content", "by", "told"), [rule[1:] for rule in SENDING_RULES], ids=[r[0] for r in SENDING_RULES]
)
def test_message_sending(sayings: list[Saying], content: str, by: str, told: list[Any]) -> None:
    merged = decided(points.SENDING, MessageSending(to="webchat", content="hi"), *sayings)
    assert (merged.content, merged.cancelled.plugin if merged.cancelled else "") == (content, by)
    assert fields(merged) == told


def test_every_point_that_has_an_answer_has_a_rule() -> None:
    merged = [each for each in vars(points).values() if isinstance(each, points.HookPoint)]
    asked = {point.name for point in merged}
    assert asked == {point.name for point in POINTS.values() if point.answer is not None}
    assert {name for name, point in POINTS.items() if point.fails == "closed"} == {
        point.name for point in merged if point.objection is not None
    }


def _given(answer: PromptChange) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in answer.__struct_fields__}
