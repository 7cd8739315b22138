"""What the author of a plugin imports; docs/plugins.md shows how.

from openclaw.plugin import Api, FunctionTool

def register(api: Api) -> None:
    api.tool(FunctionTool("dice", "Throws a die.", {}, lambda args, context: str(random.randint(1, 6))))
"""

from openclaw.core.channel import Channel, ShowsTyping
from openclaw.core.chat import Address, Inbound, Outbound, Receipt
from openclaw.core.embedder import Embedder, EmbedderEndpoint, Traits
from openclaw.core.errors import InvalidRequest, NotFound, ProviderError, RateLimited, Unavailable
from openclaw.core.events import CallDelta, Done, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.hooks import (
    BeforeAgentReply,
    BeforeInstall,
    BeforeModelResolve,
    BeforePromptBuild,
    BeforeToolCall,
    HookContext,
    InstallVerdict,
    MessageReceived,
    MessageSending,
    ModelChoice,
    PromptChange,
    ReplyClaim,
    RequireApproval,
    SendingVerdict,
    ToolVerdict,
)
from openclaw.core.messages import Assistant, Image, Text, ToolCall, Usage
from openclaw.core.plugin import (
    Api,
    Command,
    CommandCall,
    CommandReply,
    FunctionTool,
    HttpAnswer,
    HttpRequest,
    HttpRoute,
    Method,
    Service,
)
from openclaw.core.provider import Endpoint, Model, ModelRequest, Provider
from openclaw.core.secret import Secret
from openclaw.core.tool import Effects, Output, Tool, ToolContext, ToolSpec

__all__ = [
    "Address",
    "Api",
    "Assistant",
    "BeforeAgentReply",
    "BeforeInstall",
    "BeforeModelResolve",
    "BeforePromptBuild",
    "BeforeToolCall",
    "CallDelta",
    "Channel",
    "Command",
    "CommandCall",
    "CommandReply",
    "Done",
    "Effects",
    "Embedder",
    "EmbedderEndpoint",
    "Endpoint",
    "FunctionTool",
    "HookContext",
    "HttpAnswer",
    "HttpRequest",
    "HttpRoute",
    "Image",
    "Inbound",
    "InstallVerdict",
    "InvalidRequest",
    "MessageReceived",
    "MessageSending",
    "Method",
    "Model",
    "ModelChoice",
    "ModelEvent",
    "ModelRequest",
    "NotFound",
    "Outbound",
    "Output",
    "PromptChange",
    "Provider",
    "ProviderError",
    "RateLimited",
    "Receipt",
    "ReplyClaim",
    "RequireApproval",
    "Secret",
    "SendingVerdict",
    "Service",
    "ShowsTyping",
    "Text",
    "TextDelta",
    "ThinkingDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolSpec",
    "ToolVerdict",
    "Traits",
    "Unavailable",
    "Usage",
]
