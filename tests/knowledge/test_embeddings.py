import pytest

from agentvm.errors import ConfigInvalid, NotAvailable
from agentvm.knowledge.embeddings import embedder_address, read_reply
from agentvm.model.tool_settings import EmbedderSettings


def test_settings_that_lack_something_are_told_by_name() -> None:
    for settings, said in (
        (EmbedderSettings(url="localhost", model="m"), "tools.embedder.url"),
        (EmbedderSettings(url="http://a.example/v1"), "tools.embedder.model"),
    ):
        with pytest.raises(ConfigInvalid, match=said):
            embedder_address(settings)


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"data": [{"index": "a", "embedding": []}]}'])
def test_a_reply_in_another_form_is_explained(body: bytes) -> None:
    with pytest.raises(NotAvailable, match="form of OpenAI"):
        read_reply(body)
