"""Secret values: usable, but never printed by accident."""

import re
from functools import lru_cache
from typing import NoReturn

REDACTED = "__OPENCLAW_REDACTED__"


class Secret:
    """Holds a credential; only `reveal()` gives it out, so that every use can be found by name."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


def redact(text: str, *secrets: Secret | None) -> str:
    """`text` with each of the `secrets` redacted."""
    for secret in secrets:
        if secret and len(secret.reveal()) >= 6:
            text = text.replace(secret.reveal(), REDACTED)
    return text


_SECRET_NAMES = re.compile(
    r"(?:^|/)(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|\.password-store|credentials|keyrings)(?:/|$)"
    r"|(?:^|/)(?:\.env(?:\.[\w.-]+)?|\.netrc|\.pgpass|\.git-credentials|\.npmrc|\.pypirc|id_[a-z0-9]+|[^/]*\.(?:pem|key|p12|pfx"
    r"|kdbx|keystore|jks)|auth-profiles\.json|openclaw\.json[^/]*|device-auth\.json|identity\.json|[^/]*secrets?\.(?:ya?ml"
    r"|json|toml|txt|env)|shadow|master\.key|wallet\.dat|environ)$",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(
    r"(?:^|/)(?:\.env\.(?:example|sample|template)|id_[a-z0-9]+\.(?:md|txt|py|csv))$", re.IGNORECASE
)


@lru_cache(maxsize=1024)
def is_secret_path(path: str) -> bool:
    """Whether a file usually holds credentials, judging by its name."""
    return bool(_SECRET_NAMES.search(path)) and not _NOT_SECRET.search(path)
