"""Skills."""

from typing import Annotated, Literal

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, Params


class SkillsStatusParams(Params, frozen=True, kw_only=True):
    """Params of `skills.status`."""

    agent_id: NonEmpty | None = None
    session_key: NonEmpty | None = None


class SkillsInstallParams(Params, frozen=True, kw_only=True):
    """Params of `skills.install`."""

    agent_id: NonEmpty | None = None
    name: NonEmpty | None = None
    install_id: NonEmpty | None = None
    dangerously_force_unsafe_install: bool | None = None
    timeout_ms: Annotated[int, Meta(ge=1000)] | None = None
    source: Literal["clawhub", "upload"] | None = None
    slug: NonEmpty | None = None
    version: NonEmpty | None = None
    force: bool | None = None
    upload_id: NonEmpty | None = None
    sha256: Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[a-fA-F0-9]{64}$")] | None = None

    def __post_init__(self) -> None:
        needed = {None: ("name", "installId"), "clawhub": ("slug",), "upload": ("uploadId", "slug")}[self.source]
        given = {"name": self.name, "installId": self.install_id, "slug": self.slug, "uploadId": self.upload_id}
        for name in needed:
            if given[name] is None:
                raise ValueError(f"must have required property '{name}'")


class SkillsUpdateParams(Params, frozen=True, kw_only=True):
    """Params of `skills.update`."""

    skill_key: NonEmpty | None = None
    enabled: bool | None = None
    api_key: str | None = None
    env: dict[str, str] | None = None
    agent_id: NonEmpty | None = None
    source: Literal["clawhub"] | None = None
    slug: NonEmpty | None = None
    all: bool | None = None
    force: bool | None = None

    def __post_init__(self) -> None:
        if self.source is None and self.skill_key is None:
            raise ValueError("must have required property 'skillKey'")


class SkillsSearchParams(Params, frozen=True, kw_only=True):
    """Params of `skills.search`."""

    query: NonEmpty | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] | None = None


class SkillsDetailParams(Params, frozen=True, kw_only=True):
    """Params of `skills.detail`."""

    slug: NonEmpty


class SkillsTrustShowParams(Params, frozen=True, kw_only=True):
    """Params of `skills.trust.show`, which only we have."""

    name: NonEmpty
    agent_id: NonEmpty | None = None


class SkillsTrustSetParams(Params, frozen=True, kw_only=True):
    """Params of `skills.trust.set`, which only we have. The digest says which state of the files was looked at."""

    name: NonEmpty
    decision: Literal["accept", "refuse"]
    tree_sha256: NonEmpty
    agent_id: NonEmpty | None = None
