"""AI SDK — chats of `useChat` and other clients of the AI SDK's UI message streams."""

from agentvm.gateways.ai_sdk.chat_body import UiChatBody
from agentvm.gateways.ai_sdk.chats import resume, send, stop
from agentvm.gateways.ai_sdk.errors import shape
from agentvm.gateways.routes import Gateway, GatewayRoute

_NAMES = {"agent": "image_id", "chat": "chat_id"}

AI_SDK = Gateway(
    name="ai_sdk",
    prefixes=("/ai-sdk",),
    routes=(
        GatewayRoute(method="POST", path="/{agent}", handler=send, body=UiChatBody, names={"agent": "image_id"}),
        GatewayRoute(method="GET", path="/{agent}/{chat}/stream", handler=resume, names=_NAMES),
        GatewayRoute(method="DELETE", path="/{agent}/{chat}/stream", handler=stop, names=_NAMES),
    ),
    shape=shape,
)
