"""Settings of `security`."""

from typing import Annotated

from openclaw.core.settings import Settings, doc


class SecuritySettings(Settings, frozen=True):
    """`security`: protections that work whatever the model does."""

    prompt_boundaries: Annotated[bool, doc("enclose workspace files in the prompt in markers nobody can forge")] = True
