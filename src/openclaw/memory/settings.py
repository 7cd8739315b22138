"""Settings of `agents.defaults.memorySearch` and of `memory`."""

from typing import Annotated, Any, Literal, TypeVar, get_args

from msgspec import Meta, Struct, defstruct, field, structs

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Millis, Settings, doc

Source = Literal["memory", "sessions"]
BUILT_IN = ("local", "openai", "gemini", "voyage", "ollama", "openai-compatible", "hash")
"""The built-in embedders; any other name is a plugin's."""
EmbedderName = Annotated[str, Meta(pattern=r"^[a-zA-Z][a-zA-Z0-9_.-]{0,63}$")]
Citations = Literal["auto", "on", "off"]
Share = Annotated[float, Meta(ge=0, le=1)]


class ExtraPath(Settings, frozen=True):
    """A directory with a pattern for the names in it."""

    path: Annotated[str, doc("file or directory, from the workspace or absolute", min_length=1)]
    pattern: Annotated[str | None, doc("only files whose path below it matches, for example **/*.md")] = None


class RemoteSettings(Settings, frozen=True):
    """Where embeddings come from when they are not made here."""

    base_url: Annotated[str | None, doc("address of the API, when it is not the provider's own")] = None
    api_key: Annotated[Secret | None, doc("the key: text, ${ENV_NAME} or a SecretRef; else the provider's")] = None
    headers: Annotated[dict[str, str], doc("extra request headers")] = field(default_factory=dict)


class MemoryExperimentalSettings(Settings, frozen=True):
    """What may still change."""

    session_memory: Annotated[bool, doc("search earlier conversations too")] = False


class LocalSettings(Settings, frozen=True):
    """The model on this machine."""

    model_path: Annotated[str | None, doc("an ONNX file to use in place of the installed model")] = None


class VectorSettings(Settings, frozen=True):
    """Vectors in the index."""

    enabled: Annotated[bool, doc("use the vector extension of the database")] = True
    extension_path: Annotated[str | None, doc("its file, when it is not the installed one")] = None


class StoreSettings(Settings, frozen=True):
    """Where the index is kept."""

    driver: Annotated[Literal["sqlite"], doc("the kind of database")] = "sqlite"
    path: Annotated[str | None, doc("its file; {agentId} stands for the agent")] = None
    vector: Annotated[VectorSettings, doc("vectors in the index")] = VectorSettings()


class ChunkingSettings(Settings, frozen=True):
    """How notes are cut into pieces."""

    tokens: Annotated[Count, doc("size of a piece")] = 400
    overlap: Annotated[int, doc("how much of a piece the next one repeats", ge=0)] = 80


class SessionSyncSettings(Settings, frozen=True):
    """When a growing conversation is read again."""

    delta_bytes: Annotated[int, doc("after so many bytes", ge=0)] = 100_000
    delta_messages: Annotated[int, doc("or after so many messages", ge=0)] = 50


class SyncSettings(Settings, frozen=True):
    """When the index follows the notes."""

    on_session_start: Annotated[bool, doc("when a conversation begins")] = True
    on_search: Annotated[bool, doc("when something is searched for")] = True
    watch: Annotated[bool, doc("when a note changes")] = True
    watch_debounce_ms: Annotated[Millis, doc("quiet time before a change is taken up")] = 1_500
    interval_minutes: Annotated[float, doc("and every so often; 0 for never", ge=0)] = 0
    sessions: Annotated[SessionSyncSettings, doc("growing conversations")] = SessionSyncSettings()


class MmrSettings(Settings, frozen=True):
    """Not six times the same."""

    enabled: Annotated[bool, doc("prefer results that differ from each other")] = True
    weight: Annotated[Share, doc("1 for the best results only, 0 for the most different")] = field(
        default=0.7, name="lambda"
    )


class DecaySettings(Settings, frozen=True):
    """Old daily notes count less."""

    enabled: Annotated[bool, doc("let dated notes fade")] = True
    half_life_days: Annotated[float, doc("days after which a note counts half", gt=0)] = 30
    max_share: Annotated[
        Share, doc("the most that age takes from a score; below 1 an old note is never hidden by its age alone")
    ] = 1.0


class HybridSettings(Settings, frozen=True):
    """Meaning and words together."""

    enabled: Annotated[bool, doc("use both; off for meaning alone")] = True
    vector_weight: Annotated[float, doc("how much meaning counts", ge=0)] = 0.7
    text_weight: Annotated[float, doc("how much words count", ge=0)] = 0.3
    candidate_multiplier: Annotated[float, doc("candidates looked at for each result", gt=0)] = 4
    mmr: Annotated[MmrSettings, doc("prefer results that differ from each other")] = MmrSettings()
    temporal_decay: Annotated[DecaySettings, doc("let dated notes fade")] = DecaySettings()


class QuerySettings(Settings, frozen=True):
    """What a search gives back."""

    max_results: Annotated[Count, doc("most results")] = 6
    min_score: Annotated[float, doc("least score of a result, from 0 to 1")] = 0.35
    hybrid: Annotated[HybridSettings, doc("meaning and words together")] = HybridSettings()


class CacheSettings(Settings, frozen=True):
    """Embeddings of text that left the notes, in case it comes back."""

    enabled: Annotated[bool, doc("keep them")] = True
    max_entries: Annotated[Count | None, doc("most of them")] = 50_000


class MemorySearchSettings(Settings, frozen=True):
    """`memorySearch`: how notes are found again."""

    enabled: Annotated[bool, doc("offer the memory tools")] = True
    sources: Annotated[tuple[Source, ...], doc("what is searched")] = ("memory",)
    extra_paths: Annotated[tuple[str | ExtraPath, ...], doc("more Markdown files and directories")] = ()
    provider: Annotated[
        EmbedderName, doc("what turns text into vectors: auto, none, one of ours, or the name of a plugin's")
    ] = "auto"
    remote: Annotated[RemoteSettings, doc("embeddings from elsewhere")] = RemoteSettings()
    experimental: Annotated[MemoryExperimentalSettings, doc("what may still change")] = MemoryExperimentalSettings()
    fallback: Annotated[EmbedderName, doc("used when the provider fails: a name as in provider, or none")] = "none"
    model: Annotated[str, doc("embedding model; the provider's usual one when empty")] = ""
    local: Annotated[LocalSettings, doc("the model on this machine")] = LocalSettings()
    store: Annotated[StoreSettings, doc("where the index is kept")] = StoreSettings()
    chunking: Annotated[ChunkingSettings, doc("how notes are cut into pieces")] = ChunkingSettings()
    sync: Annotated[SyncSettings, doc("when the index follows the notes")] = SyncSettings()
    query: Annotated[QuerySettings, doc("what a search gives back")] = QuerySettings()
    cache: Annotated[CacheSettings, doc("embeddings of text that left the notes")] = CacheSettings()

    @property
    def searched(self) -> tuple[Source, ...]:
        """The sources, with conversations when the experiment is on."""
        more: tuple[Source, ...] = ("sessions",) if self.experimental.session_memory else ()
        return tuple(dict.fromkeys((*self.sources, *more)))


class MemorySettings(Settings, frozen=True):
    """`memory`: how the assistant speaks of its notes."""

    citations: Annotated[Citations, doc("say where a remembered fact stands: on, off, or auto (in direct chats)")] = (
        "auto"
    )


S = TypeVar("S", bound=Struct)


def _override(kind: type[Struct]) -> Any:
    """Derives a settings type with every field optional."""
    parts: list[tuple[str, Any, Any]] = []
    for known in structs.fields(kind):
        inner, *metas = get_args(known.type)
        if isinstance(inner, type) and issubclass(inner, Struct):
            inner = _override(inner)
        line = next(meta.description for meta in metas if meta.description)
        limited = Annotated[(inner, *metas)]  # type: ignore[valid-type]
        parts.append((known.name, Annotated[limited | None, doc(line)], field(default=None, name=known.encode_name)))
    return defstruct(
        f"{kind.__name__.removesuffix('Settings')}Override",
        parts,
        bases=(Settings,),
        module=__name__,
        namespace={"__doc__": kind.__doc__},
        frozen=True,
        kw_only=True,
    )


MemorySearchOverride = _override(MemorySearchSettings)
"""`agents.list[].memorySearch`: the same fields, each only where the agent differs."""


def overlay(base: S, own: Struct | None) -> S:
    """`base` with what `own` sets; extra paths are added, everything else is replaced field by field."""
    if own is None:
        return base
    changed: dict[str, Any] = {}
    for known in structs.fields(own):
        value = getattr(own, known.name)
        old = getattr(base, known.name)
        if value is None:
            continue
        if known.name == "extra_paths":
            changed[known.name] = (*old, *value)
        elif isinstance(value, Struct) and isinstance(old, Struct):
            changed[known.name] = overlay(old, value)
        else:
            changed[known.name] = value
    return structs.replace(base, **changed)
