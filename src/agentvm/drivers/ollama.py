"""Ollama — finds a server of Ollama that runs on this machine, and the models it has."""

import httpx2
import msgspec

OLLAMA_URL = "http://127.0.0.1:11434"
_TIMEOUT_SECONDS = 0.5
_MODELS_MAX = 20


class _Model(msgspec.Struct):
    name: str


class _Tags(msgspec.Struct):
    models: list[_Model]


def ollama_models(url: str = OLLAMA_URL) -> list[str]:
    """Returns the names of the models that Ollama has on this machine; none when it does not run. Blocks half a second."""
    try:
        with httpx2.Client(timeout=_TIMEOUT_SECONDS, trust_env=False) as client:
            response = client.get(f"{url}/api/tags")
        tags = msgspec.json.decode(response.content, type=_Tags) if response.is_success else _Tags([])
    except (httpx2.HTTPError, msgspec.MsgspecError):
        return []
    return [model.name for model in tags.models[:_MODELS_MAX]]
