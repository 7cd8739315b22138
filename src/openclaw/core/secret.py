"""Secret values: usable, but never printed by accident."""

import re
from functools import lru_cache
from typing import NoReturn

from openclaw.core.text import compile_lazily

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


_COPY = r"(?:[~.-]?(?:bak|backup|old|orig|save|swp|copy|\d{1,8}))?"
"""What is put behind the name of a file to keep an earlier version."""
_DATA = r"(?:ya?ml|json|toml|txt|env|ini|csv|xml|conf|cfg|properties)"
_SECRET_NAMES = compile_lazily(
    # Directories.
    r"(?:^|/)(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|\.password-store|credentials|keyrings|\.config/(?:gh|gcloud|hub|op"
    r"|doctl|rclone|pip)|\.terraform\.d|\.vault|\.oci|\.bluemix|\.chef|\.(?:mozilla|thunderbird)|(?:google-chrome|chromium"
    r"|BraveSoftware)(?=/))(?:/|$)"
    # Files.
    r"|(?:^|/)(?:\.env(?:[.-][\w.-]+)?|[\w.-]+\.env|\.netrc|_netrc|\.pgpass|\.my\.cnf|\.mylogin\.cnf|\.git-credentials|\.npmrc|\.yarnrc"
    r"|\.pypirc|\.gem/credentials|\.boto|\.s3cfg|\.htpasswd|\.vault-token|\.dockercfg|\.dockerconfigjson|\.rediscli_auth"
    r"|\.\w*_history|id_(?:rsa|dsa|ecdsa|ed25519)\w*|id_[a-z0-9]+|ssh_host_\w+_key|[^/]*\.(?:pem|key|p12|pfx|p8|kdbx?|keystore|jks|ppk|asc|gpg"
    r"|ovpn|tfstate|tfvars|agekey)|terraform\.tfstate\.\w+|auth-profiles\.json|openclaw\.json[^/]*|device-auth\.json|identity\.json"
    rf"|(?:[\w.-]*[._-])?(?:secrets?|passwords?|passwd|credentials?|api[_-]?keys?|access[_-]?keys?|auth[_-]?tokens?|tokens?"
    rf"|service[_-]?accounts?|client[_-]?secrets?)(?:[._-][\w.-]*)?\.{_DATA}"
    r"|shadow|gshadow|master\.key|wallet\.dat|environ|wp-config\.php"
    r"|(?:cookies|logins|key[34]|signons)\.(?:sqlite|db|json)|login data|cookies"
    r"|hosts\.yml(?<=gh/hosts\.yml)|kubeconfig|credentials|\.credentials|gha-creds-\w+\.json|application_default_credentials\.json)"
    rf"{_COPY}$",
    re.IGNORECASE,
)
_NOT_SECRET = compile_lazily(
    r"(?:^|/)(?:[\w.-]*[.-](?:example|sample|template|dist|test|schema)(?:\.\w+)?|id_[a-z0-9]+\.(?:md|txt|py|csv)|[^/]*\.pub"
    r"|tokens?\.txt(?<=vocab/tokens\.txt)|(?:design[_-]?)tokens?\.json|pub(?:lic)?[^/]*\.(?:pem|key|asc))$",
    re.IGNORECASE,
)


@lru_cache(maxsize=1024)
def is_secret_path(path: str) -> bool:
    """Whether a file usually holds credentials, judging by its name."""
    return bool(_SECRET_NAMES.search(path)) and not _NOT_SECRET.search(path)
