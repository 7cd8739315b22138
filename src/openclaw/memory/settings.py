"""Settings of `agents.defaults.memorySearch` and of `memory`."""

from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct, defstruct, field, structs

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Millis, Settings

Source = Literal["memory", "sessions"]
BUILT_IN = ("local", "openai", "gemini", "voyage", "ollama", "openai-compatible", "hash")
"""The built-in embedders; any other name is a plugin's."""
EmbedderName = Annotated[str, Meta(pattern=r"^[a-zA-Z][a-zA-Z0-9_.-]{0,63}$")]
Citations = Literal["auto", "on", "off"]
Share = Annotated[float, Meta(ge=0, le=1)]


class ExtraPath(Settings, frozen=True):
    """A directory with a pattern for the names in it."""

    path: Annotated[str, Meta(min_length=1)]
    """file or directory, from the workspace or absolute"""
    pattern: str | None = None
    """only files whose path below it matches, for example **/*.md"""


class RemoteSettings(Settings, frozen=True):
    """Where embeddings come from when they are not made here."""

    base_url: str | None = None
    """address of the API, when it is not the provider's own"""
    api_key: Secret | None = None
    """the key: text, ${ENV_NAME} or a SecretRef; else the provider's"""
    headers: dict[str, str] = field(default_factory=dict)
    """extra request headers"""


class MemoryExperimentalSettings(Settings, frozen=True):
    """What may still change."""

    session_memory: bool = False
    """search earlier conversations too"""


class LocalSettings(Settings, frozen=True):
    """The model on this machine."""

    model_path: str | None = None
    """an ONNX file to use in place of the installed model"""


class VectorSettings(Settings, frozen=True):
    """Vectors in the index."""

    enabled: bool = True
    """use the vector extension of the database"""
    extension_path: str | None = None
    """its file, when it is not the installed one"""


class StoreSettings(Settings, frozen=True):
    """Where the index is kept."""

    driver: Literal["sqlite"] = "sqlite"
    """the kind of database"""
    path: str | None = None
    """its file; {agentId} stands for the agent"""
    vector: VectorSettings = VectorSettings()
    """vectors in the index"""


class ChunkingSettings(Settings, frozen=True):
    """How notes are cut into pieces."""

    tokens: Count = 400
    """size of a piece"""
    overlap: Annotated[int, Meta(ge=0)] = 80
    """how much of a piece the next one repeats"""


class SessionSyncSettings(Settings, frozen=True):
    """When a growing conversation is read again."""

    delta_bytes: Annotated[int, Meta(ge=0)] = 100_000
    """after so many bytes"""
    delta_messages: Annotated[int, Meta(ge=0)] = 50
    """or after so many messages"""


class SyncSettings(Settings, frozen=True):
    """When the index follows the notes."""

    on_session_start: bool = True
    """when a conversation begins"""
    on_search: bool = True
    """when something is searched for"""
    watch: bool = True
    """when a note changes"""
    watch_debounce_ms: Millis = 1_500
    """quiet time before a change is taken up"""
    interval_minutes: Annotated[float, Meta(ge=0)] = 0
    """and every so often; 0 for never"""
    sessions: SessionSyncSettings = SessionSyncSettings()
    """growing conversations"""


class MmrSettings(Settings, frozen=True):
    """Not six times the same."""

    enabled: bool = True
    """prefer results that differ from each other"""
    weight: Share = field(default=0.7, name="lambda")
    """1 for the best results only, 0 for the most different"""


class DecaySettings(Settings, frozen=True):
    """Old daily notes count less."""

    enabled: bool = True
    """let dated notes fade"""
    half_life_days: Annotated[float, Meta(gt=0)] = 30
    """days after which a note counts half"""
    max_share: Share = 1.0
    """the most that age takes from a score; below 1 an old note is never hidden by its age alone"""


class HybridSettings(Settings, frozen=True):
    """Meaning and words together."""

    enabled: bool = True
    """use both; off for meaning alone"""
    vector_weight: Annotated[float, Meta(ge=0)] = 0.7
    """how much meaning counts"""
    text_weight: Annotated[float, Meta(ge=0)] = 0.3
    """how much words count"""
    candidate_multiplier: Annotated[float, Meta(gt=0)] = 4
    """candidates looked at for each result"""
    mmr: MmrSettings = MmrSettings()
    """prefer results that differ from each other"""
    temporal_decay: DecaySettings = DecaySettings()
    """let dated notes fade"""


class QuerySettings(Settings, frozen=True):
    """What a search gives back."""

    max_results: Count = 6
    """most results"""
    min_score: float = 0.35
    """least score of a result, from 0 to 1"""
    hybrid: HybridSettings = HybridSettings()
    """meaning and words together"""


class CacheSettings(Settings, frozen=True):
    """Embeddings of text that left the notes, in case it comes back."""

    enabled: bool = True
    """keep them"""
    max_entries: Count | None = 50_000
    """most of them"""


class MemorySearchSettings(Settings, frozen=True):
    """`memorySearch`: how notes are found again."""

    enabled: bool = True
    """offer the memory tools"""
    sources: tuple[Source, ...] = ("memory",)
    """what is searched"""
    extra_paths: tuple[str | ExtraPath, ...] = ()
    """more Markdown files and directories"""
    provider: EmbedderName = "auto"
    """what turns text into vectors: auto, none, one of ours, or the name of a plugin's"""
    remote: RemoteSettings = RemoteSettings()
    """embeddings from elsewhere"""
    experimental: MemoryExperimentalSettings = MemoryExperimentalSettings()
    """what may still change"""
    fallback: EmbedderName = "none"
    """used when the provider fails: a name as in provider, or none"""
    model: str = ""
    """embedding model; the provider's usual one when empty"""
    local: LocalSettings = LocalSettings()
    """the model on this machine"""
    store: StoreSettings = StoreSettings()
    """where the index is kept"""
    chunking: ChunkingSettings = ChunkingSettings()
    """how notes are cut into pieces"""
    sync: SyncSettings = SyncSettings()
    """when the index follows the notes"""
    query: QuerySettings = QuerySettings()
    """what a search gives back"""
    cache: CacheSettings = CacheSettings()
    """embeddings of text that left the notes"""

    @property
    def searched(self) -> tuple[Source, ...]:
        """The sources, with conversations when the experiment is on."""
        more: tuple[Source, ...] = ("sessions",) if self.experimental.session_memory else ()
        return tuple(dict.fromkeys((*self.sources, *more)))


class MemorySettings(Settings, frozen=True):
    """`memory`: how the assistant speaks of its notes."""

    citations: Citations = "auto"
    """say where a remembered fact stands: on, off, or auto (in direct chats)"""


S = TypeVar("S", bound=Struct)


def _override(kind: type[Struct]) -> Any:
    """Derives a settings type with every field optional."""
    parts: list[tuple[str, Any, Any]] = []
    for known in structs.fields(kind):
        inner = known.type
        if isinstance(inner, type) and issubclass(inner, Struct):
            inner = _override(inner)
        parts.append((known.name, inner | None, field(default=None, name=known.encode_name)))
    return defstruct(
        f"{kind.__name__.removesuffix('Settings')}Override",
        parts,
        bases=(Settings,),
        module=__name__,
        namespace={"__doc__": kind.__doc__, "derived_from": kind},
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
