"""The models of one turn: who is asked, with which credential, and who comes next when that fails."""

from collections.abc import Callable, Sequence

from openclaw.agent.loop import Attempt
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import AuthFailed, NetworkFailed, ProviderError
from openclaw.core.provider import Endpoint, Model, Provider, ThinkingLevel
from openclaw.models import choose
from openclaw.models.choose import Failed, NextCandidate, NextProfile, Retry, State
from openclaw.models.credentials import Credential
from openclaw.models.locality import is_own
from openclaw.models.refs import Ref
from openclaw.models.situation import Situation
from openclaw.turns.patience import Patience

OpenProvider = Callable[[Endpoint], Provider]
LOCAL_TRIES = 2
"""A server on this machine that refuses connections is not running: waiting for it is no help."""


class ModelRoute:
    """Walks the candidates of a turn as `models.choose` decides, and remembers why each was left."""

    def __init__(
        self,
        situation: Situation,
        chain: Sequence[Ref],
        *,
        open_provider: OpenProvider,
        clock: Clock,
        thinking: Callable[[Model], ThinkingLevel],
        patience: Callable[[Model], Patience],
        jitter: Callable[[], float],
    ) -> None:
        self._situation = situation
        self._chain = list(chain)
        self._open = open_provider
        self._clock = clock
        self._thinking = thinking
        self._patience = patience
        self._jitter = jitter
        self._good_at = clock.now()
        self._tries = 1
        self._rotations = 0
        self.failures: list[Failed] = []
        self._credentials: list[Credential] = []
        self.attempt = self._next_candidate()

    def failed(self, error: ProviderError) -> float | None:
        model = self.attempt.model
        state = State(
            attempts=self._tries,
            since_success=self._clock.now() - self._good_at,
            rotations=self._rotations,
            profiles_left=len(self._credentials) - 1,
            candidates_left=len(self._chain),
            retry_after=error.retry_after,
            jitter=self._jitter(),
        )
        step = choose.next_step(error.reason, state)
        unreachable = isinstance(error, NetworkFailed) and is_own(model.base_url) and self._tries >= LOCAL_TRIES
        if isinstance(step, Retry) and unreachable:
            step = NextCandidate() if self._chain else choose.Stop("it is not running")
        match step:
            case Retry(wait):
                self._tries += 1
                return wait
            case NextProfile():
                self._credentials.pop(0)
                self._rotations += 1
                self.attempt = self._attempt(model)
                return 0.0
            case NextCandidate():
                self.failures.append(Failed(model.ref, error.reason, error.message))
                try:
                    self.attempt = self._next_candidate()
                except ProviderError:
                    return None
                return 0.0
            case _:
                self.failures.append(Failed(model.ref, error.reason, error.message))
                return None

    def answered(self) -> None:
        self._good_at = self._clock.now()
        self._tries = 1

    def verdict(self, error: ProviderError) -> str:
        """What to tell the person when nobody answered."""
        return choose.exhausted(self.failures) if len(self.failures) > 1 else error.message

    def _next_candidate(self) -> Attempt:
        """The first of the remaining candidates that there is a credential for."""
        missing: AuthFailed | None = None
        while self._chain:
            ref = self._chain.pop(0)
            model = self._situation.model(ref)
            try:
                self._credentials = list(self._situation.credentials(ref, millis(self._clock)))
            except AuthFailed as error:
                missing = missing or error
                self.failures.append(Failed(model.ref, error.reason, error.message))
                continue
            self._rotations = 0
            return self._attempt(model)
        raise missing or AuthFailed("no model is configured: `openclaw models status` says what is missing")

    def _attempt(self, model: Model) -> Attempt:
        self._tries = 1
        credential = self._credentials[0]
        endpoint = self._situation.registry.endpoint(model, credential.key, bearer=credential.bearer)
        patience = self._patience(model)
        return Attempt(
            model=model,
            provider=self._open(endpoint),
            thinking=self._thinking(model),
            first_event_timeout=patience.first,
            idle_timeout=patience.idle,
        )
