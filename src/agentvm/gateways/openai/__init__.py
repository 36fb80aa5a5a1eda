"""OpenAI — models, chat completions and responses, as the official clients ask for them."""

from agentvm.gateways.openai.chat import CHAT_ROUTES
from agentvm.gateways.openai.errors import shape
from agentvm.gateways.openai.models import MODEL_ROUTES
from agentvm.gateways.routes import Gateway

OPENAI = Gateway(
    name="openai",
    prefixes=("/openai/v1", "/v1"),
    routes=(*MODEL_ROUTES, *CHAT_ROUTES),
    shape=shape,
)
