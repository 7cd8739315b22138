"""What params are made of. A field that may be left out is None then; one that may also be null is UNSET then."""

from typing import Annotated

from msgspec import Meta, Struct

NonEmpty = Annotated[str, Meta(min_length=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


class Params(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The base of every params type: closed, and silent about its values, which may be secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class NoParams(Params, frozen=True):
    """For a method that takes none: absent, null or an empty object."""


def exactly_one(**given: object) -> None:
    """A rule over fields, named as on the wire, that the decoder cannot state."""
    present = [name for name, value in given.items() if value is not None]
    if not present:
        raise ValueError(f"must have required property '{next(iter(given))}'")
    if len(present) > 1:
        raise ValueError(f"must have only one of the properties '{present[0]}' and '{present[1]}'")


def not_both(**given: object) -> None:
    if all(value is not None for value in given.values()):
        first, second = given
        raise ValueError(f"must NOT have both properties '{first}' and '{second}'")


def all_different(**given: tuple[str, ...] | None) -> None:
    for name, values in given.items():
        if values is not None and len(set(values)) < len(values):
            raise ValueError(f"must NOT have duplicate items in '{name}'")
