"""Names for running commands that a model and a person can both repeat: two plain words."""

import secrets
from collections.abc import Container

_ADJECTIVES = (
    "amber brave brisk calm clear cool crisp dawn eager early faint fast fine fresh gentle glad golden grand green "
    "keen kind late light lucky mellow mild misty neat nimble oceanic plain proud quick quiet rapid ready sharp silver "
    "smooth soft solid steady still sunny swift tidal tidy vivid warm wide wild young"
).split()
_NOUNS = (
    "atlas basil bay beacon birch breeze brook cedar cliff cloud comet coral cove crane creek delta dune ember fern "
    "field finch fjord forest gale glade grove harbor heron hill island ivy lagoon lake lark maple meadow mesa nova "
    "oak orchid otter pine prairie quartz reef ridge river sage shell shore slope summit tide trail valley willow"
).split()


def fresh_name(taken: Container[str]) -> str:
    """A name that is not in `taken`: two words, then numbered, then with a third word, then random."""
    for _ in range(12):
        name = f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}"
        if name not in taken:
            return name
        for number in range(2, 13):
            if f"{name}-{number}" not in taken:
                return f"{name}-{number}"
    longer = f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}-{secrets.choice(_NOUNS)}"
    return longer if longer not in taken else f"{longer}-{secrets.token_hex(3)}"
