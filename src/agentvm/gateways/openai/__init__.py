"""OpenAI — models, chat completions, responses and conversations, as the official clients ask for them."""

from agentvm.gateways.openai.chat import CHAT_ROUTES
from agentvm.gateways.openai.conversations import CONVERSATION_ROUTES
from agentvm.gateways.openai.errors import shape
from agentvm.gateways.openai.models import MODEL_ROUTES
from agentvm.gateways.openai.responses import RESPONSE_ROUTES
from agentvm.gateways.routes import Gateway

OPENAI = Gateway(
    name="openai",
    prefixes=("/openai/v1", "/v1"),
    routes=(*MODEL_ROUTES, *CHAT_ROUTES, *RESPONSE_ROUTES, *CONVERSATION_ROUTES),
    shape=shape,
)
