"""One agent as its settings describe it."""

from typing import Any

import msgspec
import pytest

from openclaw.agent.settings import AgentsSettings, agent_ids, default_agent, resolve_agent
from openclaw.core.errors import InvalidRequest, NotFound


def agents(**settings: Any) -> AgentsSettings:
    return msgspec.convert(settings, AgentsSettings)


def test_without_any_agent_there_is_one_called_main() -> None:
    assert agent_ids(agents()) == ("main",)
    assert resolve_agent(agents(), "MAIN").is_default


@pytest.mark.parametrize(
    ("entries", "default"),
    [
        ([{"id": "a"}, {"id": "b"}], "a"),
        ([{"id": "a"}, {"id": "b", "default": True}], "b"),
        ([{"id": "Work"}], "work"),
    ],
)
def test_the_default_agent_is_the_marked_one_or_the_first(entries: list[dict[str, Any]], default: str) -> None:
    assert default_agent(agents(list=entries)) == default


def test_an_unknown_agent_is_answered_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match=r"no agent 'x' \(known: a, b\): openclaw agents add x"):
        resolve_agent(agents(list=[{"id": "a"}, {"id": "b"}]), "x")
    with pytest.raises(InvalidRequest, match="is not an agent id"):
        resolve_agent(agents(), "../etc")


SHARED = {"model": {"primary": "p/shared", "fallbacks": ["p/spare"]}, "params": {"a": 1, "b": 1}}


@pytest.mark.parametrize(
    ("own", "primary", "fallbacks"),
    [
        (None, "p/shared", ("p/spare",)),
        ("p/mine", "p/mine", ()),
        ({"primary": "p/mine", "fallbacks": ["p/other"]}, "p/mine", ("p/other",)),
        ({"primary": "p/mine"}, "p/mine", ()),
    ],
    ids=str,
)
def test_an_agents_own_model_goes_before_the_shared_one(own: Any, primary: str, fallbacks: tuple[str, ...]) -> None:
    entry = {"id": "a", "params": {"b": 2}} | ({"model": own} if own else {})
    seen = resolve_agent(agents(defaults=SHARED, list=[entry]), "a")
    assert (seen.primary, seen.fallbacks) == (primary, fallbacks)
    assert seen.params == {"a": 1, "b": 2}
