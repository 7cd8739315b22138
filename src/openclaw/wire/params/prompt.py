"""Prompts that were sent."""

from openclaw.wire.params.kinds import NonEmpty, Params, exactly_one


class PromptReportParams(Params, frozen=True, kw_only=True):
    """Params of `prompt.report`: one run, or the latest of a session."""

    run_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    include_text: bool | None = None

    def __post_init__(self) -> None:
        exactly_one(runId=self.run_id, sessionKey=self.session_key)
