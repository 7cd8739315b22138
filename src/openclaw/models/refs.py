"""Parses and resolves model references (`provider/model@profile`, aliases, bare names). Pure."""

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from openclaw.core.deferred import difflib
from openclaw.core.errors import InvalidRequest, NotFound

MAX_CHARS = 400
LIST_HINT = "`openclaw models list --all` shows what there is"

PROVIDER_ALIASES: Mapping[str, str] = {
    "z.ai": "zai",
    "z-ai": "zai",
    "opencode-zen": "opencode",
    "gemini": "google",
    "google-gemini": "google",
    "grok": "xai",
    "x.ai": "xai",
    "x-ai": "xai",
    "moonshotai": "moonshot",
    "kimi-code": "kimi",
    "kimi-coding": "kimi",
    "qwen-portal": "qwen",
    "qwencloud": "qwen",
    "modelstudio": "qwen",
    "dashscope": "qwen",
    "bytedance": "volcengine",
    "doubao": "volcengine",
    "hf": "huggingface",
    "vercel": "vercel-ai-gateway",
    "lm-studio": "lmstudio",
    "llamacpp": "llama-cpp",
    "llama.cpp": "llama-cpp",
}

# A profile follows the first `@` behind the last slash. What is part of the model's own name is not one: an `@` that
# opens a path segment (`@cf/…`), a dated version (`@20250514`), a quantisation (`@q4_k_m`, `@8bit`).
_OWN = r"(?:\d{8}|i?q\d\w*|\d+bit|(?:bf|fp?)\d+|mlx)(?:@|\Z)"
_PROFILE = re.compile(rf'(?P<ref>.*?[^/])@(?!{_OWN})(?P<profile>"[^"]+"|[^/"]+)\Z', re.DOTALL | re.IGNORECASE)


class ModelRef(Struct, frozen=True):
    """A model of a provider, and the credential to use when one was named."""

    provider: str
    model: str
    profile: str | None = None

    @property
    def key(self) -> str:
        """The reference without its profile."""
        return f"{self.provider}/{self.model}"

    def __str__(self) -> str:
        if self.profile is None:
            return f"{self.provider}/{self.model}"
        plain = re.fullmatch(r"[\w.:+@-]+", self.profile)
        return f"{self.key}@{self.profile}" if plain else f'{self.key}@"{self.profile}"'


class ModelNames(Struct, frozen=True, kw_only=True):
    """The providers, models and aliases a reference can be resolved against."""

    providers: Collection[str]
    configured: tuple[str, ...] = ()
    """References of the user's own models; a bare name means one of these first."""
    known: tuple[str, ...] = ()
    """References of the catalog's models."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Alias to reference."""
    default: str | None = None


def provider_id(name: str, known: Collection[str] = ()) -> str:
    """Resolves provider aliases; an id in `known` (the user's own provider) is never an alias."""
    lowered = name.strip().lower()
    return lowered if lowered in known else PROVIDER_ALIASES.get(lowered, lowered)


def split_profile(text: str) -> tuple[str, str | None]:
    """`text` without its `@profile`, and the profile."""
    match = _PROFILE.match(text)
    return (match["ref"], match["profile"].strip('"')) if match else (text, None)


def parse(text: str, known: Collection[str] = ()) -> ModelRef:
    """Parses a full reference; an alias or a bare name is not one."""
    body, profile = split_profile(_clean(text))
    head, slash, model = body.partition("/")
    if not slash or not head.strip() or not model.strip():
        raise InvalidRequest(f"{text!r} is not a model reference: write provider/model, for example openai/gpt-5")
    return ModelRef(provider_id(head, known), model.strip(), profile)


def aliases_of(preferences: Mapping[str, str | None]) -> dict[str, str]:
    """Inverts `agents.defaults.models` (reference to alias) into alias to reference."""
    return {alias.strip(): ref for ref, alias in preferences.items() if alias and alias.strip()}


def resolve(text: str, book: ModelNames) -> ModelRef:
    """Resolves an alias, a reference, a bare name, or `default` to a model."""
    body, profile = split_profile(_clean(text))
    if body.lower() == "default":
        target: str | None = book.default
    else:
        folded = {alias.casefold(): ref for alias, ref in book.aliases.items()}
        target = folded.get(body.casefold(), body)
    if target is None:
        raise InvalidRequest("there is no default model: set agents.defaults.model, for example to openai/gpt-5")
    ref = _known(target, book)
    return ref if profile is None else ModelRef(ref.provider, ref.model, profile)


def _clean(text: str) -> str:
    cleaned = text.strip()
    if not cleaned or len(cleaned) > MAX_CHARS or not cleaned.isprintable():
        raise InvalidRequest(
            f"a model reference is 1 to {MAX_CHARS} printable characters such as openai/gpt-5; {LIST_HINT}"
        )
    return cleaned


def _known(text: str, book: ModelNames) -> ModelRef:
    """A reference whose provider exists, or the one model a bare name fits."""
    if "/" in text:
        ref = parse(text, book.providers)
        if ref.provider in book.providers:
            return ref
    for refs in (book.configured, book.known):
        fits = tuple(dict.fromkeys(ref for ref in refs if ref.partition("/")[2].casefold() == text.casefold()))
        if len(fits) == 1:
            return parse(fits[0], book.providers)
        if fits:
            raise InvalidRequest(f"{text!r} could be {_either(fits)}: say which")
    raise NotFound(_missing(text, book))


def _missing(text: str, book: ModelNames) -> str:
    head, slash, model = text.partition("/")
    if slash:
        spelled = difflib.get_close_matches(head.lower(), (*book.providers, *PROVIDER_ALIASES), n=3, cutoff=0.5)
        near = tuple(dict.fromkeys(f"{provider_id(name, book.providers)}/{model}" for name in spelled))
        what = f"no provider {head!r}"
        how = f"; a provider of your own goes under models.providers.{head}"
    else:
        near = _nearest(text, book)
        what = f"no model {text!r}"
        how = ""
    guess = f": did you mean {_either(near)}?" if near else ";"
    return f"{what}{guess} {LIST_HINT}{how}"


def _nearest(text: str, book: ModelNames) -> tuple[str, ...]:
    """Known names similar to `text`, best first; for "did you mean"."""
    names: dict[str, str] = {}
    for ref in (*book.configured, *book.known):
        names.setdefault(ref.casefold(), ref)
        names.setdefault(ref.partition("/")[2].casefold(), ref)
    names.update({alias.casefold(): alias for alias in book.aliases})
    close = difflib.get_close_matches(text.casefold(), names, n=6, cutoff=0.5)
    return tuple(dict.fromkeys(names[name] for name in close))[:3]


def _either(names: Iterable[str]) -> str:
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else last
