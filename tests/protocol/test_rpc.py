"""A request finds its method, is checked, runs, and always gets an answer."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from msgspec import Raw

from openclaw.core import errors
from openclaw.protocol.frames import ErrorShape, RequestFrame, encode
from openclaw.protocol.params import NoParams
from openclaw.protocol.rpc import Caller, MethodFailed, MethodGroup, MethodRefusal, MethodRegistry, RpcMethod, dispatch
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from openclaw.runs.rpc.agent import AgentWaitParams

pytestmark = pytest.mark.anyio

ADMINISTRATOR = Caller(conn_id="c", scopes=(ADMIN,))
READER = Caller(conn_id="c", scopes=(READ,))
NOBODY = Caller(conn_id="c")
NODE = Caller(conn_id="c", role="node")


async def echo(params: AgentWaitParams, caller: Caller) -> dict[str, Any]:
    return {"run": params.run_id, "by": caller.conn_id}


async def twice(params: NoParams, caller: Caller) -> AsyncIterator[dict[str, str]]:
    yield {"status": "accepted"}
    yield {"status": "ok"}


async def ends_badly(params: NoParams, caller: Caller) -> AsyncIterator[Any]:
    yield {"status": "accepted"}
    yield MethodFailed(ErrorShape(code="UNAVAILABLE", message="no model"), {"runId": "r", "status": "error"})


def raising(error: Exception) -> Any:
    async def handler(params: NoParams, caller: Caller) -> None:
        raise error

    return handler


async def nothing(params: NoParams, caller: Caller) -> None:
    return None


async def unencodable(params: NoParams, caller: Caller) -> Any:
    return object()


def registry(*more: RpcMethod) -> MethodRegistry:
    return MethodRegistry(
        (
            RpcMethod("agent.wait", AgentWaitParams, echo, scope=WRITE),
            RpcMethod("health", NoParams, nothing, scope=None),
            RpcMethod("status", NoParams, nothing, scope=READ),
            RpcMethod("secret", NoParams, nothing, scope=ADMIN, advertised=False),
            RpcMethod("node.event", NoParams, nothing, scope=None, roles=("node",)),
            *more,
        )
    )


async def call(methods: MethodRegistry, method: str, caller: Caller, params: Any = None) -> list[dict[str, Any]]:
    request = (
        RequestFrame(id="7", method=method)
        if params is None
        else RequestFrame(id="7", method=method, params=Raw(encode(params)))
    )
    async with aclosing(dispatch(methods, request, caller)) as answers:
        return [json.loads(encode(answer)) async for answer in answers]


async def test_a_method_answers_with_its_payload() -> None:
    assert await call(registry(), "agent.wait", ADMINISTRATOR, {"runId": "r"}) == [
        {"type": "res", "id": "7", "ok": True, "payload": {"run": "r", "by": "c"}}
    ]


async def test_a_method_may_answer_nothing_at_all() -> None:
    assert await call(registry(), "health", NOBODY) == [{"type": "res", "id": "7", "ok": True, "payload": None}]


async def test_one_request_may_get_two_answers() -> None:
    answers = await call(registry(RpcMethod("agent", NoParams, twice, scope=WRITE)), "agent", ADMINISTRATOR)
    assert [answer["payload"]["status"] for answer in answers] == ["accepted", "ok"]
    assert {answer["id"] for answer in answers} == {"7"}


async def test_a_failed_run_shows_both_its_payload_and_its_error() -> None:
    answers = await call(registry(RpcMethod("agent", NoParams, ends_badly, scope=WRITE)), "agent", ADMINISTRATOR)
    assert answers[1] == {
        "type": "res",
        "id": "7",
        "ok": False,
        "payload": {"runId": "r", "status": "error"},
        "error": {"code": "UNAVAILABLE", "message": "no model"},
    }


@pytest.mark.parametrize(
    ("method", "caller", "code", "message"),
    [
        ("nope", ADMINISTRATOR, "INVALID_REQUEST", "unknown method: nope"),
        ("nope", READER, "FORBIDDEN", "missing scope: operator.admin"),
        ("nope", NODE, "INVALID_REQUEST", "unauthorized role: node"),
        ("status", NOBODY, "FORBIDDEN", "missing scope: operator.read"),
        ("agent.wait", READER, "FORBIDDEN", "missing scope: operator.write"),
        ("status", NODE, "INVALID_REQUEST", "unauthorized role: node"),
        ("node.event", ADMINISTRATOR, "INVALID_REQUEST", "unauthorized role: operator"),
        (
            "agent.wait",
            ADMINISTRATOR,
            "INVALID_REQUEST",
            "invalid agent.wait params: must have required property 'runId'",
        ),
    ],
)
async def test_a_call_that_may_not_be_is_refused(method: str, caller: Caller, code: str, message: str) -> None:
    (answer,) = await call(registry(), method, caller)
    assert (answer["ok"], answer["error"]["code"], answer["error"]["message"]) == (False, code, message)


@pytest.mark.parametrize(
    ("error", "shape"),
    [
        (errors.InvalidRequest("no"), {"code": "INVALID_REQUEST", "message": "no"}),
        (errors.NotFound("no session x"), {"code": "INVALID_REQUEST", "message": "no session x"}),
        (errors.Conflict("changed"), {"code": "INVALID_REQUEST", "message": "changed"}),
        (errors.ConfigError("bad", path="a.b"), {"code": "INVALID_REQUEST", "message": "bad"}),
        (errors.StateError("disk"), {"code": "UNAVAILABLE", "message": "disk"}),
        (errors.SessionBusy("busy"), {"code": "UNAVAILABLE", "message": "busy", "retryable": True}),
        (errors.AuthFailed("key"), {"code": "UNAVAILABLE", "message": "key"}),
        (
            errors.RateLimited("slow down", retry_after=1.5),
            {"code": "UNAVAILABLE", "message": "slow down", "retryable": True, "retryAfterMs": 1500},
        ),
        (
            MethodRefusal("APPROVAL_NOT_FOUND", "gone", details={"code": "X"}, retryable=False),
            {"code": "APPROVAL_NOT_FOUND", "message": "gone", "details": {"code": "X"}, "retryable": False},
        ),
    ],
)
async def test_a_failure_of_ours_has_its_code(error: Exception, shape: dict[str, Any]) -> None:
    (answer,) = await call(registry(RpcMethod("x", NoParams, raising(error))), "x", ADMINISTRATOR)
    assert answer["error"] == shape


@pytest.mark.parametrize("handler", [raising(RuntimeError("/home/me/key")), unencodable])
async def test_a_bug_is_logged_and_shows_nothing_of_itself(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        (answer,) = await call(registry(RpcMethod("x", NoParams, handler)), "x", ADMINISTRATOR)
    assert answer["error"]["code"] == "UNAVAILABLE"
    assert "/home" not in answer["error"]["message"]
    assert caplog.records[0].exc_info


def test_a_method_is_registered_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        registry(RpcMethod("health", NoParams, nothing))


def test_only_what_works_for_the_role_is_advertised() -> None:
    assert registry().advertised() == ["agent.wait", "health", "status"]
    assert registry().advertised("node") == ["node.event"]


async def test_a_group_is_built_when_one_of_its_methods_is_called() -> None:
    built: list[str] = []

    def build() -> list[RpcMethod]:
        built.append("once")
        return [RpcMethod("late.one", NoParams, nothing, None), RpcMethod("late.two", NoParams, nothing, None)]

    methods = registry()
    methods.add_group(MethodGroup(("late.one", "late.two"), build, unlisted=("late.two",)))
    assert "late.one" in methods.advertised() and "late.two" not in methods.advertised()
    assert {"late.one", "late.two"} <= set(methods.names()) and not built
    for name in ("late.one", "late.two", "late.one"):
        assert [answer["ok"] for answer in await call(methods, name, Caller(conn_id="c"))] == [True]
    assert built == ["once"]
    with pytest.raises(ValueError, match="twice"):
        methods.add_group(MethodGroup(("late.two",), build))


def test_a_group_that_builds_other_methods_than_it_names_is_refused() -> None:
    methods = MethodRegistry()
    methods.add_group(MethodGroup(("one", "two"), lambda: [RpcMethod("one", NoParams, nothing)]))
    with pytest.raises(ValueError, match="other methods than one, two"):
        methods.find("one")


async def test_a_reader_that_leaves_ends_the_handler() -> None:
    ended = []

    async def forever(params: NoParams, caller: Caller) -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append(True)

    async with aclosing(
        dispatch(registry(RpcMethod("x", NoParams, forever)), RequestFrame(id="1", method="x"), ADMINISTRATOR)
    ) as answers:
        async for _ in answers:
            break
    assert ended
