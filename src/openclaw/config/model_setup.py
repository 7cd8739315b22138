"""Connects a model: tries it with the given key or address, keeps what works, and makes it the one that answers."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated, Any

from msgspec import Meta, Struct

from openclaw.agent.settings import default_agent
from openclaw.config.edit import Editor
from openclaw.config.live import LiveConfig
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import AuthFailed, ConfigError, InvalidRequest, OpenClawError
from openclaw.core.events import TextDelta
from openclaw.core.messages import User
from openclaw.core.provider import ModelRequest, OpenProvider
from openclaw.core.secret import Secret
from openclaw.models import credentials
from openclaw.models.discover import list_served
from openclaw.models.login import PendingLogin, begin_login, exchange_code, parse_code
from openclaw.models.model_set import ModelSet
from openclaw.models.refs import ModelRef
from openclaw.models.registry import OFFLINE, ProviderFacts
from openclaw.models.service import ModelService
from openclaw.models.settings import ModelEntry, ProviderSettings
from openclaw.protocol.events import EventBus
from openclaw.protocol.params import NonEmpty, NoParams, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ

MODEL = "agents.defaults.model"
MOST_LOGINS = 20
"""Sign-ins that can be on their way at the same time; the oldest gives way."""
TAKEN_UP_SECONDS = 10.0
"""How long a running gateway may take to follow its file; what was connected is kept all the same."""


# Trying a model with one small question, before a key or an address is kept.

TRIAL_SECONDS = 30.0
QUESTION = "Answer with the single word: ready"
ANSWER_CHARS = 200


class ModelTrial(Struct, frozen=True, kw_only=True):
    """How a model answered the question, or why it did not."""

    ref: ModelRef
    answer: str = ""
    problem: str = ""
    seconds: float = 0.0


async def try_model(
    models: ModelSet, ref: ModelRef, open_provider: OpenProvider, clock: Clock, seconds: float = TRIAL_SECONDS
) -> ModelTrial:
    """Asks `ref` once, with the credential that would be used first."""
    began, answered, answer = clock.now(), False, ""
    try:
        model = models.model(ref)
        credential = models.credentials(ref, millis(clock))[0]
        question = User(content=QUESTION, timestamp=millis(clock))
        request = ModelRequest(model=model, messages=(question,), max_tokens=64)
        provider = open_provider(models.endpoint(model, credential))
        async with asyncio.timeout(seconds), aclosing(provider.stream(request)) as events:  # type: ignore[type-var]
            async for event in events:
                answered = True
                answer += event.text if isinstance(event, TextDelta) else ""
    except TimeoutError:
        if not answered:
            return ModelTrial(ref=ref, problem=f"{ref.key} has not answered within {seconds:.0f} s")
    except OpenClawError as error:
        return ModelTrial(ref=ref, problem=error.message)
    if not answered:
        return ModelTrial(ref=ref, problem=f"{ref.key} gave an empty answer")
    return ModelTrial(ref=ref, answer=" ".join(answer.split())[:ANSWER_CHARS], seconds=clock.now() - began)


# Connecting it.


class ModelsConnectParams(Params, frozen=True, kw_only=True):
    """Params of `models.connect`: a provider we know with its key, a server by its address, or a model to use."""

    provider: NonEmpty | None = None
    api_key: NonEmpty | None = None
    base_url: NonEmpty | None = None
    model: NonEmpty | None = None
    check: bool = True
    """Whether it is asked a question first."""
    use: bool = True
    """Whether it becomes the model that answers."""


class ModelsLoginStartParams(Params, frozen=True, kw_only=True):
    """Params of `models.login.start`."""

    provider: NonEmpty
    callback_url: Annotated[str, Meta(min_length=1, max_length=2_000)]
    """Where the person comes back to, without the state, which is put behind it."""
    model: NonEmpty | None = None
    use: bool = True


class ModelsLoginFinishParams(Params, frozen=True, kw_only=True):
    """Params of `models.login.finish`."""

    state: NonEmpty
    answer: NonEmpty
    """The code, or the address at which the browser ended."""


class ModelsTestParams(Params, frozen=True, kw_only=True):
    """Params of `models.test`."""

    model: NonEmpty | None = None


class ModelSetup(Struct, frozen=True, kw_only=True):
    """What is to be tried, and kept when it works."""

    models: ModelSet
    ref: ModelRef
    key: Secret | None
    servers: Mapping[str, ProviderSettings]
    """Providers that are not in the configuration yet."""


class ModelConnector:
    """Tries models and keeps those that answer."""

    def __init__(
        self,
        models: ModelService,
        open_provider: OpenProvider,
        editor: Editor,
        live: LiveConfig,
        bus: EventBus,
        clock: Clock,
        *,
        follows: bool,
    ) -> None:
        """`follows` when this gateway takes up changes of its file while it runs."""
        self._models = models
        self._open = open_provider
        self._editor = editor
        self._live = live
        self._bus = bus
        self._clock = clock
        self._follows = follows
        self._logins: dict[str, PendingLogin] = {}
        """By state."""

    def describe(self) -> dict[str, Any]:
        """The model that answers now, and what can be connected."""
        now, problem = millis(self._clock), ""
        try:
            models = self._current()
        except ConfigError as error:  # what is configured cannot be used; another can still be connected
            models, problem = self._models.trial_set(default_agent(self._live.config.agents), {}, {}), error.message
        known = [facts for facts in models.registry.providers if facts.id != OFFLINE and not facts.free]
        return {
            "model": "" if problem else str(models.default),
            "why": problem or models.pick.why,
            "configured": models.default.provider != OFFLINE,
            "providers": [_provider(facts, models, now) for facts in known],
            "local": [
                {"provider": each.provider, "model": each.model, "address": each.address}
                for each in self._models.local_models()
            ],
        }

    async def look(self) -> None:
        """Asks the model servers of this machine what they offer now."""
        await self._models.look_for_servers()

    async def test(self, name: str | None) -> ModelTrial:
        """Asks a model one question, with what is configured."""
        models = self._current()
        return await try_model(models, models.resolve(name or "default"), self._open, self._clock)

    async def connect(self, params: ModelsConnectParams) -> dict[str, Any]:
        """Tries and keeps; raises with the model's own words when it does not answer, and then nothing is kept."""
        setup = await self._plan(params)
        trial = ModelTrial(ref=setup.ref)
        if params.check:
            trial = await try_model(setup.models, setup.ref, self._open, self._clock)
            if trial.problem:
                raise InvalidRequest(f"{trial.problem.rstrip('.')}. Nothing was kept")
        if setup.key is not None:
            await asyncio.to_thread(self._models.store_key, setup.ref.provider, setup.key)
        return await self._keep(setup, trial, use=params.use)

    async def _keep(self, setup: ModelSetup, trial: ModelTrial, *, use: bool) -> dict[str, Any]:
        await self._write(setup, use=use)
        self._bus.publish("models.changed", {})
        return {"ok": True, "model": setup.ref.key, "answer": trial.answer, "ms": round(trial.seconds * 1000)}

    def begin_login(self, params: ModelsLoginStartParams) -> dict[str, Any]:
        """Where a person signs in; the secret that belongs to it stays here."""
        now = millis(self._clock)
        models = self._models.trial_set(default_agent(self._live.config.agents), {}, {})
        facts = models.registry.provider(params.provider)
        login = begin_login(facts, params.callback_url, now, params.model, use=params.use)
        running = {state: each for state, each in self._logins.items() if each.expires_ms > now}
        while len(running) >= MOST_LOGINS:
            del running[next(iter(running))]
        self._logins = {**running, login.state: login}
        return {"state": login.state, "url": login.url, "expiresAtMs": login.expires_ms}

    async def finish_login(self, params: ModelsLoginFinishParams) -> dict[str, Any]:
        """Exchanges the code for a key, keeps it, and tries it; the key stays also when the model does not answer."""
        login = self._logins.get(params.state)
        if login is None or login.expires_ms <= millis(self._clock):
            raise InvalidRequest("this sign-in is over: it lasts ten minutes and ends with the gateway; begin it again")
        key = await exchange_code(login, parse_code(login, params.answer))
        self._logins.pop(params.state, None)
        await asyncio.to_thread(self._models.store_key, login.provider, key)
        self._bus.publish("models.changed", {})
        setup = await self._plan(ModelsConnectParams(provider=login.provider, model=login.model))
        trial = await try_model(setup.models, setup.ref, self._open, self._clock)
        if trial.problem:
            # A new account without credit is signed in all the same: signing in again would not help.
            raise InvalidRequest(f"You are signed in at {login.name} and the key is kept, but {trial.problem}")
        return await self._keep(setup, trial, use=login.use)

    def _current(self) -> ModelSet:
        return self._models.model_set(default_agent(self._live.config.agents))

    async def _plan(self, params: ModelsConnectParams) -> ModelSetup:
        key = Secret(params.api_key.strip()) if params.api_key else None
        if params.base_url:
            return await self._server(params, params.base_url.strip().rstrip("/"), key)
        agent = default_agent(self._live.config.agents)
        models = self._models.trial_set(agent, {}, {})
        ref = models.resolve(params.model) if params.model else None
        name = params.provider or (ref.provider if ref else None)
        if name is None:
            raise InvalidRequest("say what to connect: provider, baseUrl or model")
        facts = models.registry.provider(name)
        if ref is None:
            usual = _usual_model(facts, models)
            if not usual:
                raise InvalidRequest(f"name a model of {facts.id} too: {facts.id}/MODEL")
            ref = ModelRef(facts.id, usual)
        if ref.provider != facts.id:
            raise InvalidRequest(f"{ref.key} is not a model of {facts.id}")
        if key is not None:
            models = self._models.trial_set(agent, {}, {facts.id: key})
        return ModelSetup(models=models, ref=ref, key=key, servers={})

    async def _server(self, params: ModelsConnectParams, address: str, key: Secret | None) -> ModelSetup:
        """A server that is only known by its address; without a model, the first that it offers."""
        if not address.startswith(("http://", "https://")):
            raise InvalidRequest(f"{address} is not an address: write it like http://192.168.1.20:8000/v1")
        model = params.model or (await asyncio.to_thread(list_served, address, key))[0]
        known = self._live.config.models.providers
        name = params.provider or next((each for each, given in known.items() if given.base_url == address), "")
        if not name:
            taken = (f"server-{number}" if number else "server" for number in range(len(known) + 1))
            name = next(each for each in taken if each not in known)
        given = ProviderSettings(base_url=address, api="openai-completions", models=(ModelEntry(id=model),))
        agent = default_agent(self._live.config.agents)
        models = self._models.trial_set(agent, {name: given}, {name: key} if key else {})
        return ModelSetup(models=models, ref=ModelRef(name, model), key=key, servers={name: given})

    async def _write(self, setup: ModelSetup, *, use: bool) -> None:
        patch: dict[str, Any] = {}
        for name, given in setup.servers.items():
            entry = {"baseUrl": given.base_url, "api": given.api, "models": [{"id": each.id} for each in given.models]}
            patch["models"] = {"providers": {name: entry}}
        if use:
            # Whoever has fallbacks keeps them.
            choice: Any = setup.ref.key
            if self._live.is_set(f"{MODEL}.fallbacks"):
                choice = {"primary": setup.ref.key}
            patch["agents"] = {"defaults": {"model": choice}}
        replaced = tuple(f"models.providers.{name}.models" for name in setup.servers)
        with self._bus.listening(("config.changed",)) as heard:
            change = await asyncio.to_thread(self._editor.patch, patch, replace_paths=replaced)
            if not (change.written and self._follows):
                return
            try:
                async with asyncio.timeout(TAKEN_UP_SECONDS):
                    async for _ in heard:
                        if self._live.current.hash == change.after:
                            return
            except TimeoutError:
                return


def _usual_model(facts: ProviderFacts, models: ModelSet) -> str | None:
    """The model that is taken when only a provider is named."""
    own = (each.model for each in models.registry.configured() if each.provider == facts.id)
    return next(own, facts.default_model)


def _provider(facts: ProviderFacts, models: ModelSet, now: int) -> dict[str, Any]:
    try:
        source = credentials.list_credentials(facts, models.keyring, now)[0].source
    except AuthFailed:
        source = ""
    return {
        "id": facts.id,
        "name": facts.name,
        "keyUrl": facts.key_url,
        "login": facts.login is not None,
        "env": list(facts.env),
        "defaultModel": _usual_model(facts, models),
        "hasKey": bool(source),
        "source": source,
        "needsKey": facts.needs_key,
    }


def model_setup_methods(connector: ModelConnector) -> list[RpcMethod]:
    async def setup(params: NoParams, caller: Caller) -> Any:
        await connector.look()
        return connector.describe()

    async def connect(params: ModelsConnectParams, caller: Caller) -> Any:
        return await connector.connect(params)

    async def begin(params: ModelsLoginStartParams, caller: Caller) -> Any:
        return connector.begin_login(params)

    async def finish(params: ModelsLoginFinishParams, caller: Caller) -> Any:
        return await connector.finish_login(params)

    async def test(params: ModelsTestParams, caller: Caller) -> Any:
        found = await connector.test(params.model)
        shown: dict[str, Any] = {"ok": not found.problem, "model": found.ref.key}
        return shown | (
            {"error": found.problem} if found.problem else {"answer": found.answer, "ms": round(found.seconds * 1000)}
        )

    return [
        RpcMethod("models.setup", NoParams, setup, READ),
        RpcMethod("models.connect", ModelsConnectParams, connect, ADMIN),
        RpcMethod("models.login.start", ModelsLoginStartParams, begin, ADMIN),
        RpcMethod("models.login.finish", ModelsLoginFinishParams, finish, ADMIN),
        RpcMethod("models.test", ModelsTestParams, test, ADMIN),
    ]
