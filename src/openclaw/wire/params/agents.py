"""The agents and the files of their workspaces."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from openclaw.wire.params.kinds import NonEmpty, Params


class AgentsCreateParams(Params, frozen=True, kw_only=True):
    """Params of `agents.create`."""

    name: NonEmpty
    workspace: NonEmpty | None = None
    model: NonEmpty | None = None
    emoji: str | None = None
    avatar: str | None = None


class AgentsUpdateParams(Params, frozen=True, kw_only=True):
    """Params of `agents.update`."""

    agent_id: NonEmpty
    name: NonEmpty | None = None
    workspace: NonEmpty | None = None
    model: NonEmpty | UnsetType | None = UNSET
    agent_runtime: NonEmpty | None = None
    emoji: str | None = None
    avatar: str | None = None


class AgentsDeleteParams(Params, frozen=True, kw_only=True):
    """Params of `agents.delete`."""

    agent_id: NonEmpty
    delete_files: bool | None = None


class AgentsFilesListParams(Params, frozen=True, kw_only=True):
    """Params of `agents.files.list`."""

    agent_id: NonEmpty


class AgentsFilesGetParams(Params, frozen=True, kw_only=True):
    """Params of `agents.files.get`."""

    agent_id: NonEmpty
    name: NonEmpty


class AgentsFilesSetParams(Params, frozen=True, kw_only=True):
    """Params of `agents.files.set`."""

    agent_id: NonEmpty
    name: NonEmpty
    content: str
    expected_hash: Annotated[str, Meta(min_length=64, max_length=64, pattern=r"^[a-fA-F0-9]{64}$")] | None = None


class AgentsFilesHistoryParams(Params, frozen=True, kw_only=True):
    """Params of `agents.files.history`, which only we have."""

    agent_id: NonEmpty
    name: NonEmpty


class AgentsFilesVersionParams(Params, frozen=True, kw_only=True):
    """Params of `agents.files.version`, which only we have."""

    agent_id: NonEmpty
    name: NonEmpty
    version: NonEmpty
