"""The providers that come with OpenClaw, by the wire API they speak. They register as a plugin's would."""

import importlib
from functools import partial

from openclaw.core.plugin import Api
from openclaw.core.provider import Endpoint, Provider

MODULES = {
    "openai-completions": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic-messages": "anthropic",
    "google-generative-ai": "google",
    "ollama": "ollama",
    "offline": "offline",
}


def register(api: Api) -> None:
    for name, module in MODULES.items():
        api.provider(name, partial(_open, module))


def _open(module: str, endpoint: Endpoint) -> Provider:
    """Only the module that is used is imported."""
    provider: Provider = importlib.import_module(f"openclaw.providers.{module}").build(endpoint)
    return provider
