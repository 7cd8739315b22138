"""What the encoders share: limits, parameters, tools and bytes of a request."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from openclaw.core.messages import Image
from openclaw.core.provider import Endpoint, Model, ModelRequest
from openclaw.core.tool import ToolSpec

# Parameters the runtime reads itself; everything else in a model's `params` goes to the provider as it stands.
_RUNTIME_PARAMS = frozenset(
    ("temperature", "maxTokens", "cacheRetention", "thinking", "fastMode", "context1m", "extra_body", "serviceTier")
)


def authority(url: str) -> str:
    """Host and port of an address, however odd the address is; never the credentials in it."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2].lower()


def host_of(model: Model) -> str:
    return re.sub(r":\d*$", "", authority(model.base_url))


def placed(request: ModelRequest, endpoint: Endpoint) -> ModelRequest:
    """`request` with its model's address filled in, so that an encoder knows the host."""
    if request.model.base_url:
        return request
    return replace(request, model=replace(request.model, base_url=endpoint.base_url))


def found_model(endpoint: Endpoint, model_id: str, *, name: str | None, window: int | None) -> Model:
    """A model the endpoint says it has."""
    model = Model(
        provider=endpoint.provider, id=model_id, api=endpoint.api, base_url=endpoint.base_url, name=name or model_id
    )
    return replace(model, context_window=window) if window else model


def number(model: Model, name: str) -> Any:
    """A numeric parameter of the model, if it is one."""
    value = model.params.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def output_limit(request: ModelRequest) -> int | None:
    """The most tokens to answer with: what is asked for, within what the model can do."""
    asked = request.max_tokens or number(request.model, "maxTokens")
    limits = [int(limit) for limit in (asked, request.model.max_tokens) if limit]
    return min(limits) if limits else None


def temperature(request: ModelRequest) -> float | None:
    asked = request.temperature if request.temperature is not None else number(request.model, "temperature")
    return None if asked is None else float(asked)


def passed_params(model: Model) -> dict[str, Any]:
    """Parameters that go to the provider untouched."""
    return {name: value for name, value in model.params.items() if name not in _RUNTIME_PARAMS}


def extra_body(model: Model) -> dict[str, Any]:
    """What the configuration puts into every request, over everything else."""
    extra = model.params.get("extra_body")
    return dict(extra) if isinstance(extra, Mapping) else {}


def sorted_tools(request: ModelRequest) -> list[ToolSpec]:
    """The tools in an order that is the same for every call, so that caches hit."""
    if request.model.compat.supports_tools is False:
        return []
    return sorted(request.tools, key=lambda tool: tool.name)


def schema(tool: ToolSpec, model: Model) -> dict[str, Any]:
    """The tool's parameters without the keywords the endpoint cannot read."""
    return _schema(tool.schema, frozenset(model.compat.unsupported_tool_schema_keywords))


@lru_cache(maxsize=512)
def _schema(text: bytes, keywords: frozenset[str]) -> dict[str, Any]:
    """The same for every call, so made once; nobody changes a request's body in place."""
    return {"type": "object", "properties": {}} | _without(msgspec.json.decode(text), keywords)


def _without(value: Mapping[str, Any], keywords: frozenset[str]) -> dict[str, Any]:
    """`value` without `keywords`; names of properties are not keywords."""
    out: dict[str, Any] = {}
    for name, part in value.items():
        if name in keywords:
            continue
        if name in ("properties", "$defs", "definitions", "patternProperties") and isinstance(part, Mapping):
            out[name] = {key: _cleaned(inner, keywords) for key, inner in part.items()}
        elif name in ("const", "default", "enum", "examples"):
            out[name] = part
        else:
            out[name] = _cleaned(part, keywords)
    return out


def _cleaned(value: Any, keywords: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return _without(value, keywords)
    return [_cleaned(part, keywords) for part in value] if isinstance(value, list | tuple) else value


def data_url(image: Image) -> str:
    return f"data:{image.mime_type};base64,{image.data}"


def joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    return to_bytes(arguments).decode()


def to_bytes(body: Any) -> bytes:
    """The JSON of a request; half characters, which no encoding has, become the replacement character."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(body))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_whole(name): _whole(part) for name, part in value.items()}
    return [_whole(part) for part in value] if isinstance(value, list | tuple) else value


def openai_effort(request: ModelRequest) -> str | None:
    """The reasoning effort in OpenAI's words, or None to leave it to the model."""
    model, level = request.model, request.thinking
    if not model.reasoning or model.compat.supports_reasoning_effort is False:
        return None
    mapped = (model.compat.reasoning_effort_map or {}).get(level)
    if mapped is not None:
        return mapped
    if level == "adaptive":
        return None
    return _least_effort(model.id) if level == "off" else level


def _least_effort(model_id: str) -> str | None:
    """How close to no thinking a model gets; None when that is not known."""
    name = model_id.rpartition("/")[2]
    found = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    if found:
        version = (int(found[1]), int(found[2] or 0))
        return None if version < (5, 0) else "minimal" if version == (5, 0) else "none"
    return "low" if re.match(r"o\d", name) else None
