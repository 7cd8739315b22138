"""The event bus: who comes and goes between two events of one name."""

from openclaw.protocol.events import EventBus


def test_listeners_come_and_go() -> None:
    bus = EventBus()
    with bus.listening(("tick",)) as first:
        bus.publish("tick", {"n": 1})
        bus.publish("chat", {})
        with bus.listening() as second:
            bus.publish("tick", {"n": 2})
        bus.publish("tick", {"n": 3})
    bus.publish("tick", {"n": 4})
    assert [each.payload["n"] for each in first.waiting] == [1, 2, 3]
    assert [each.payload["n"] for each in second.waiting] == [2]


def test_what_happened_elsewhere_is_heard_by_those_who_ask_for_it() -> None:
    bus = EventBus()
    with bus.listening() as here, bus.listening(everywhere=True) as everywhere:
        bus.publish("tick", {}, here=False)
        bus.publish("tick", {})
    assert (len(here.waiting), len(everywhere.waiting)) == (1, 2)
