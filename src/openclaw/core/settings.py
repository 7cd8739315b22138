"""The base of all settings types: frozen structs. The string below a field documents it (`config/field_docs.py`).

Secrets arrive as text, as `${ENV}` or as a reference; `config` resolves them, so that a loaded value is a `Secret`.
"""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, TypeVarTuple

from msgspec import Meta, Struct

from openclaw.core.secret import Secret


class SecretRef(Struct, frozen=True, forbid_unknown_fields=True):
    """A reference to a credential stored elsewhere."""

    source: Literal["env", "file", "exec", "store"]
    id: str
    provider: str = "default"


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Live(Protocol[T_co]):
    """Reads a section of the configuration as it is now; a reload replaces the value."""

    @property
    def current(self) -> T_co: ...


class EditsSettings(Protocol):
    """Changes the configuration file."""

    def patch(self, patch: dict[str, Any]) -> Any: ...


class Fixed(Generic[T]):
    """A `Live` value that never changes: for one command, and for tests."""

    def __init__(self, value: T) -> None:
        self.current = value


SecretInput = Secret
"""The type of a credential field: written as a string, `${NAME}` or a SecretRef; read as a handle."""


class Settings(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of every settings type."""


S = TypeVar("S", bound=Settings)
Ts = TypeVarTuple("Ts")
MOST_ANSWERS = 256


def cache_per_settings(work: Callable[[S, *Ts], T]) -> Callable[[S, *Ts], T]:
    """Caches the answers of `work` about one settings value, until it is asked about another."""
    # One name for both, because another thread may ask about other settings at the same time.
    kept: tuple[S | None, dict[tuple[Any, ...], T]] = (None, {})

    @wraps(work)
    def cached(settings: S, *args: *Ts) -> T:
        nonlocal kept
        about, answers = kept
        if about is not settings or len(answers) >= MOST_ANSWERS:
            answers = {}
            kept = (settings, answers)
        if args not in answers:
            answers[args] = work(settings, *args)
        return answers[args]

    return cached


Millis = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
"""For `Count | None`: limits belong inside the union, because they apply to numbers only."""
