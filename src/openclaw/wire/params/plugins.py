"""Params of `plugins.*`."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, NoParams, Params

Digest = Annotated[str, Meta(pattern="^[a-f0-9]{64}$")]


class PluginsListParams(NoParams, frozen=True):
    pass


class PluginReloadTarget(Params, frozen=True):
    plugin_id: NonEmpty
    install_hash: Digest | None = None
    source_digests: Mapping[str, Digest] | None = None


class ReviewToken(Params, frozen=True):
    review_token: NonEmpty


class PluginsReloadParams(Params, frozen=True):
    plugins: Annotated[tuple[PluginReloadTarget, ...], Meta(min_length=1, max_length=64)]
    acknowledge_capabilities: ReviewToken | None = None
