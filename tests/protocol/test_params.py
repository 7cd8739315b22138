"""Params types say what the protocol says: the same names, the same required ones, the same limits."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import openclaw
from openclaw.automation.cron import rpc as cron_rpc
from openclaw.config import rpc as config_rpc
from openclaw.devices import rpc as devices_rpc
from openclaw.gateway.rpc import system as gateway_rpc
from openclaw.models import rpc as models_rpc
from openclaw.protocol import connect
from openclaw.protocol.params import NoParams, Params
from openclaw.protocol.rpc import MethodRefusal, read_params
from openclaw.runs.rpc import agent as runs_rpc
from openclaw.runs.rpc import chat as chat_rpc
from openclaw.runs.rpc import tools as tools_rpc
from openclaw.security import rpc as security_rpc
from openclaw.sessions import params
from openclaw.skills import rpc as skills_rpc
from openclaw.workspace import rpc as workspace_rpc

SCHEMAS = json.loads((Path(__file__).parent.parent / "golden" / "frames" / "schemas.json").read_text())
DEFINITIONS = SCHEMAS["definitions"]
MODULES = (
    chat_rpc,
    config_rpc,
    connect,
    cron_rpc,
    devices_rpc,
    gateway_rpc,
    models_rpc,
    params,
    runs_rpc,
    security_rpc,
    skills_rpc,
    tools_rpc,
    workspace_rpc,
)
TYPES = {
    name: kind
    for module in MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Params) and name in DEFINITIONS
}

# Where a type cannot say what the schema says, and why. Each is checked by a rule of the type, or is not ours to check.
DEVIATIONS = {
    "ChatStartupParams": "two shapes in one type; a rule allows exactly one of sessionKey and shortId",
    "CronGetParams": "two shapes in one type; a rule allows exactly one of id and jobId",
    "CronRemoveParams": "two shapes in one type; a rule allows exactly one of id and jobId",
    "CronRunParams": "two shapes in one type; a rule allows exactly one of id and jobId",
    "CronUpdateParams": "two shapes in one type; a rule allows exactly one of id and jobId",
    "SkillsUpdateParams": "two shapes in one type; a rule asks for skillKey without a source",
    "ConnectParams.computerUse": "taken as it is: no method here looks at it",
    "ConnectParams.workerRuns": "taken as it is: workers connect elsewhere",
    "ConnectParams.modelCatalog": "two shapes in one type; only a hint for a snapshot",
    "ExecApprovalsSetParams.baseHash": "the digest of a document that does not exist yet is empty",
    "CronAddParams.sessionTarget": "three words and a pattern become one pattern",
    "CronUpdateParams.patch.sessionTarget": "three words and a pattern become one pattern",
    "CronAddParams.failureAlert": "false or an object: a rule refuses true",
    "CronUpdateParams.patch.failureAlert": "false or an object: a rule refuses true",
}


class Shape:
    """A JSON schema, ours or theirs, brought to one form that can be compared."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self.definitions = definitions

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].split("/")[-1]]
        return schema

    def of(self, schema: dict[str, Any], path: str) -> Any:
        if any(path == known or path.startswith(f"{known}.") for known in DEVIATIONS):
            return "deviates"
        schema = self.resolve(schema)
        options = self.options(schema)
        if len(options) != 1:
            return ("one of", sorted((self.one(option, path) for option in options), key=repr))
        return self.one(options[0], path)

    def options(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        if "anyOf" in schema and "properties" not in schema:
            found = [inner for option in schema["anyOf"] for inner in self.options(self.resolve(option))]
            words = [value for option in found for value in values(option)]
            rest = [option for option in found if not values(option)]
            if words and any(option.get("type") == "string" for option in rest):
                words = [word for word in words if not isinstance(word, str)]
            numbers = [option for option in rest if option.get("type") in ("integer", "number")]
            if len(numbers) > 1:
                rest = [option for option in rest if option.get("type") != "integer"]
            return [*rest, *([{"enum": words}] if words else [])]
        if isinstance(schema.get("type"), list):
            return [{**schema, "type": kind} for kind in schema["type"]]
        return [schema]

    def one(self, schema: dict[str, Any], path: str) -> Any:
        if found := values(schema):
            return ("enum", sorted(found, key=repr))
        kind = schema.get("type")
        if kind == "object" and schema.get("properties"):
            return self.closed(schema, path)
        if kind == "object":
            inner = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties", {}))
            inner = inner if isinstance(inner, dict) else {}
            return ("map", self.of(inner, f"{path}.*"), schema.get("maxProperties"))
        if kind == "array":
            size = schema.get("minItems"), schema.get("maxItems")
            return ("array", self.of(schema.get("items", {}), path), size)
        limits = {
            name: schema[name] for name in ("minLength", "maxLength", "minimum", "maximum", "pattern") if name in schema
        }
        return (kind, sorted(limits.items()))

    def closed(self, schema: dict[str, Any], path: str) -> Any:
        properties = {
            name: self.of(self.may_be_null(inner, name in schema.get("required", ())), f"{path}.{name}")
            for name, inner in schema["properties"].items()
        }
        return ("object", properties, sorted(schema.get("required", ())), schema.get("additionalProperties") is False)

    def may_be_null(self, schema: dict[str, Any], required: bool) -> dict[str, Any]:
        """In our types None stands for "left out" where the default is null; such a null is refused when read."""
        if required or schema.get("default", ...) is not None or "anyOf" not in schema:
            return schema
        return {"anyOf": [option for option in schema["anyOf"] if option != {"type": "null"}]}


def values(schema: dict[str, Any]) -> list[Any]:
    """The words a schema allows. A lone `true` or `false` counts as any boolean: our types cannot say less."""
    if "enum" in schema:
        return list(schema["enum"])
    if isinstance(schema.get("const"), bool):
        return []
    return [schema["const"]] if "const" in schema else []


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_params_type_says_what_the_protocol_says(name: str) -> None:
    _, definitions = msgspec.json.schema_components([TYPES[name]])
    mine = Shape(definitions).of(definitions[name], name)
    theirs = Shape(DEFINITIONS).of(DEFINITIONS[name], name)
    assert mine == theirs


def offered() -> set[str]:
    """The methods that the sources register."""
    sources = Path(openclaw.__file__).parent.rglob("*.py")
    return {name for path in sources for name in re.findall(r'RpcMethod\(\s*"([\w.]+)"', path.read_text())}


def test_every_method_of_the_protocol_that_we_offer_has_its_type() -> None:
    for method in SCHEMAS["methods"].keys() & (offered() | {"connect"}):
        facts = SCHEMAS["methods"][method]
        definition = Shape(DEFINITIONS).resolve(DEFINITIONS[facts["params"]])
        if definition.get("properties") or "anyOf" in definition:
            assert facts["params"] in TYPES, method


def read(name: str, text: str) -> Params:
    kinds: dict[str, type[Params]] = {
        "agent": runs_rpc.AgentParams,
        "chat.history": chat_rpc.ChatHistoryParams,
        "chat.send": chat_rpc.ChatSendParams,
        "chat.startup": chat_rpc.ChatStartupParams,
        "chat.metadata": chat_rpc.ChatMetadataParams,
        "config.get": NoParams,
        "cron.get": cron_rpc.CronGetParams,
        "cron.add": cron_rpc.CronAddParams,
        "models.list": models_rpc.ModelsListParams,
        "sessions.patch": params.SessionsPatchParams,
        "skills.update": skills_rpc.SkillsUpdateParams,
    }
    return read_params(name, kinds[name], msgspec.Raw(text.encode()))


JOB = '"name":"n","schedule":{"kind":"at","at":"x"},"wakeMode":"now","payload":{"kind":"systemEvent","text":"t"}'

WRONG = [
    ("agent", "{}", "must have required property 'message'"),
    ("agent", '{"message":"hi","idempotencyKey":"k","x":1}', "at root: unexpected property 'x'"),
    ("agent", '{"message":"","idempotencyKey":"k"}', "at /message: must NOT have fewer than 1 characters"),
    ("agent", '{"message":5,"idempotencyKey":"k"}', "at /message: must be string"),
    ("agent", '{"message":"hi","idempotencyKey":"k","timeout":-1}', "at /timeout: must be >= 0"),
    ("agent", '{"message":"hi","idempotencyKey":"k","timeout":1.5}', "at /timeout: must be integer"),
    ("agent", '{"message":"hi","idempotencyKey":"k","agentId":null}', "at /agentId: must NOT be null"),
    (
        "agent",
        '{"message":"hi","idempotencyKey":"k","promptMode":"x"}',
        "at /promptMode: must be equal to one of the allowed values",
    ),
    ("agent", "[]", "must be object"),
    ("agent", "[" * 100_000, "must be object"),
    ("config.get", '{"a":1}', "at root: unexpected property 'a'"),
    ("chat.history", '{"sessionKey":"main","limit":1001}', "at /limit: must be <= 1000"),
    ("chat.history", '{"sessionKey":"main","inputRunIds":[]}', "at /inputRunIds: must NOT have fewer than 1 items"),
    (
        "chat.history",
        '{"sessionKey":"main","inputRunIds":["a","a"]}',
        "must NOT have duplicate items in 'inputRunIds'",
    ),
    (
        "chat.send",
        '{"sessionKey":"main","message":"","idempotencyKey":"k","mentions":[{"profileId":"p","start":0}]}',
        "at /mentions/0: must have required property 'end'",
    ),
    (
        "chat.send",
        '{"sessionKey":"main","message":"","idempotencyKey":"k","fastMode":3}',
        "at /fastMode: must match a schema in anyOf",
    ),
    (
        "chat.send",
        '{"sessionKey":"main","message":"","idempotencyKey":"k","mentions":[{"profileId":"p","start":0,"end":1,"q":2}]}',
        "at /mentions/0: unexpected property 'q'",
    ),
    ("chat.startup", "{}", "must have required property 'sessionKey'"),
    ("chat.startup", '{"shortId":"s"}', "must have required property 'agentId'"),
    ("chat.metadata", '{"sessionKey":"a","authProfileId":"b"}', "must NOT have both properties"),
    (
        "models.list",
        '{"preparedOnly":true,"refresh":true}',
        "must NOT have both properties 'preparedOnly' and 'refresh'",
    ),
    ("cron.get", "{}", "must have required property 'id'"),
    ("cron.get", '{"id":"a","jobId":"b"}', "must have only one of the properties 'id' and 'jobId'"),
    ("cron.add", f'{{{JOB},"sessionTarget":"elsewhere"}}', "at /sessionTarget: must match pattern"),
    ("cron.add", f'{{{JOB},"sessionTarget":"main","failureAlert":true}}', "failureAlert must be false or an object"),
    ("skills.update", "{}", "must have required property 'skillKey'"),
    (
        "sessions.patch",
        '{"key":"main","toolOverrides":{"skills":{"a.b":3}}}',
        "at /toolOverrides/skills/*: must be boolean",
    ),
]


@pytest.mark.parametrize(("method", "text", "rule"), WRONG)
def test_wrong_params_are_told_where_and_why(method: str, text: str, rule: str) -> None:
    with pytest.raises(MethodRefusal) as refused:
        read(method, text)
    assert refused.value.error.code == "INVALID_REQUEST"
    assert refused.value.message.startswith(f"invalid {method} params: {rule}")


@pytest.mark.parametrize("text", ["", "null", "{}"])
def test_absent_params_are_an_empty_object(text: str) -> None:
    assert read("config.get", text) == NoParams()


def test_null_clears_a_field_that_may_be_null_and_absence_leaves_it() -> None:
    patch = read("sessions.patch", '{"key":"main","model":null}')
    assert isinstance(patch, params.SessionsPatchParams)
    assert patch.model is None
    assert patch.label is msgspec.UNSET


@pytest.mark.parametrize("alert", ["false", '{"after":1}'])
def test_a_job_may_switch_its_alert_off_or_set_it(alert: str) -> None:
    assert read("cron.add", f'{{{JOB},"sessionTarget":"session:x","failureAlert":{alert}}}')


def test_params_never_show_their_values() -> None:
    auth = connect.ConnectAuth(token="very-secret", password="other-secret")
    assert "secret" not in repr(auth)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = sorted({field.encode_name for kind in TYPES.values() for field in msgspec.structs.fields(kind)})


@given(st.sampled_from(sorted(TYPES)), st.dictionaries(st.sampled_from(names), json_values, max_size=4))
def test_any_params_are_read_or_refused(name: str, value: dict[str, Any]) -> None:
    try:
        read_params(name, TYPES[name], msgspec.Raw(json.dumps(value).encode()))
    except MethodRefusal as refused:
        assert refused.message.startswith(f"invalid {name} params: ")


@given(st.sampled_from(sorted(TYPES)), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    try:
        read_params(name, TYPES[name], msgspec.Raw(data))
    except MethodRefusal as refused:
        assert refused.error.code == "INVALID_REQUEST"
