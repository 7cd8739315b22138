"""Who holds which agent, decided from the nodes that are there."""

from openclaw.gateway.cluster.placement import ClusterNode, PlacedAgent, choose_node, plan

AGENTS = [f"agent-{number}" for number in range(300)]


def nodes(*names: str) -> list[ClusterNode]:
    return [ClusterNode(id=f"{name}-1", name=name) for name in names]


def chosen(among: list[ClusterNode]) -> dict[str, str]:
    return {agent: found.name for agent in AGENTS if (found := choose_node(agent, among)) is not None}


def test_agents_are_spread_over_the_nodes() -> None:
    shares = list(chosen(nodes("one", "two", "three")).values())
    assert all(70 <= shares.count(name) <= 130 for name in ("one", "two", "three"))


def test_a_node_that_joins_takes_its_share_and_moves_nothing_else() -> None:
    before, after = chosen(nodes("one", "two")), chosen(nodes("one", "two", "three"))
    moved = {agent for agent in AGENTS if before[agent] != after[agent]}
    assert 0 < len(moved) < 150
    assert {after[agent] for agent in moved} == {"three"}


def test_a_node_that_starts_again_gets_what_it_had() -> None:
    first, second = nodes("one", "two"), [*nodes("one"), ClusterNode(id="two-2", name="two")]
    assert chosen(first) == chosen(second)


def test_a_draining_node_and_a_command_hold_nothing_while_somebody_else_can() -> None:
    leaving = ClusterNode(id="two-1", name="two", draining=True)
    guest = ClusterNode(id="three-1", name="three", guest=True)
    assert set(chosen([*nodes("one"), leaving, guest]).values()) == {"one"}
    assert set(chosen([leaving, guest]).values()) == {"two"}
    assert set(chosen([guest]).values()) == {"three"}
    assert choose_node("main", []) is None


def test_an_agent_that_was_moved_stays_where_it_is_wanted_while_that_node_is_there() -> None:
    assert all(choose_node(agent, nodes("one", "two"), "two").name == "two" for agent in AGENTS)  # type: ignore[union-attr]
    assert all(choose_node(agent, nodes("one"), "two").name == "one" for agent in AGENTS)  # type: ignore[union-attr]


def test_what_a_living_node_holds_is_not_taken_and_what_a_gone_one_held_is() -> None:
    here = nodes("one")
    held = {"main": PlacedAgent(agent="main", node="two-1")}
    assert plan("one-1", here, held, ["main"]).take == ("main",)
    both = [*here, ClusterNode(id="two-1", name="two", draining=True)]
    assert plan("one-1", both, held, ["main"]).take == ()
    assert plan("two-1", both, held, ["main"]).release == ("main",)


def test_every_agent_is_taken_by_exactly_one_node() -> None:
    among = nodes("one", "two", "three")
    taken = [agent for node in among for agent in plan(node.id, among, {}, AGENTS).take]
    assert sorted(taken) == sorted(AGENTS)


def test_nothing_is_placed_on_a_node_that_is_silent_or_cannot_write() -> None:
    silent = ClusterNode(id="two-1", name="two", silent=True)
    full = ClusterNode(id="three-1", name="three", trouble="No space left on device")
    assert set(chosen([*nodes("one"), silent, full]).values()) == {"one"}
    held = {agent: PlacedAgent(agent=agent, node="two-1") for agent in AGENTS}
    assert not plan("one-1", [*nodes("one"), silent], held, AGENTS).take  # until it counts as gone
