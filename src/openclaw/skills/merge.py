"""Of several skills with one name, which is used. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from openclaw.skills.record import Collision, Skill
from openclaw.skills.standing import Trust


class JudgedSkill(Struct, frozen=True):
    """A skill and how far it is trusted."""

    skill: Skill
    trust: Trust


def merge(found: Sequence[JudgedSkill]) -> tuple[tuple[JudgedSkill, ...], tuple[Collision, ...]]:
    """One skill a name, sorted by name, and the clashes worth a line. `found` is in order of precedence.

    A skill that is held back never displaces one that may be used: a cloned directory cannot switch off yours.
    """
    by_name: dict[str, list[JudgedSkill]] = {}
    for item in found:
        by_name.setdefault(item.skill.name, []).append(item)
    winners: list[JudgedSkill] = []
    clashes: list[Collision] = []
    for name, items in sorted(by_name.items()):
        winner = next((item for item in items if not item.trust.held), items[0])
        winners.append(winner)
        clashes += [
            Collision(name=name, winner=winner.skill, loser=item.skill)
            for item in items
            if item is not winner and item.skill.content_hash != winner.skill.content_hash
        ]
    return tuple(winners), tuple(clashes)
