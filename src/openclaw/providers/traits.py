"""How one chat-completions endpoint differs from the next."""

from msgspec import Struct

from openclaw.core.provider import Model
from openclaw.providers.replay import HistoryRules
from openclaw.providers.request import host_of

_OLD_LIMIT_HOSTS = ("mistral.ai", "deepseek.com", "moonshot.ai", "moonshot.cn", "together.xyz", "z.ai", "bigmodel.cn")
_NO_EFFORT_HOSTS = ("mistral.ai", "x.ai")


class EndpointTraits(Struct, frozen=True, kw_only=True):
    """How this endpoint wants to be spoken to."""

    store: bool
    cache_key: bool
    developer: bool
    effort: bool
    temperature: bool
    usage: bool
    strict: bool
    string_content: bool
    tool_result_name: bool
    thinking_as_text: bool
    limit_field: str
    thinking_format: str
    rules: HistoryRules


def is_openai(model: Model) -> bool:
    host = host_of(model)
    return host == "api.openai.com" or (not host and model.provider == "openai")


def traits(model: Model) -> EndpointTraits:
    """What the compat flags say, and where they are silent what is known of the host."""
    compat, host, openai = model.compat, host_of(model), is_openai(model)
    mistral = model.provider == "mistral" or host.endswith("mistral.ai")

    def flag(value: bool | None, otherwise: bool) -> bool:
        return otherwise if value is None else value

    string_content = flag(compat.requires_string_content, False)
    return EndpointTraits(
        store=flag(compat.supports_store, openai),
        cache_key=flag(compat.supports_prompt_cache_key, openai),
        developer=openai and model.reasoning and compat.supports_developer_role is not False,
        effort=flag(compat.supports_reasoning_effort, not host.endswith(_NO_EFFORT_HOSTS)),
        temperature=flag(compat.supports_temperature, not (openai and model.reasoning)),
        usage=flag(compat.supports_usage_in_streaming, True),
        strict=flag(compat.supports_strict_mode, openai),
        string_content=string_content,
        tool_result_name=flag(compat.requires_tool_result_name, mistral),
        thinking_as_text=flag(compat.requires_thinking_as_text, False),
        limit_field=compat.max_tokens_field
        or ("max_tokens" if host.endswith(_OLD_LIMIT_HOSTS) else "max_completion_tokens"),
        thinking_format=compat.thinking_format or "openai",
        rules=HistoryRules(id_chars=9 if mistral else 40, id_exact=mistral, images=not string_content),
    )
