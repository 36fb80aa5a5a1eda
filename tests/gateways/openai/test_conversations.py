import openai
import pytest
from tests.gateways.openai.fixtures import talking

from agentvm import Definition


async def test_a_conversation_is_created_used_listed_and_deleted() -> None:
    async with talking(definitions=[Definition(name="poet", system_prompt="You are a poet")]) as (client, served):
        conversation = await client.conversations.create(
            items=[{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}], metadata={"title": "Rhymes"}
        )
        about = {"title": "Rhymes", "topic": "rain"}
        assert (await client.conversations.update(conversation.id, metadata=about)).metadata == about
        for model, size in (("default", 3), ("poet", 5), ("poet", 7)):
            response = await client.responses.create(model=model, input="on", conversation=conversation.id)
            assert response.conversation is not None
            assert response.conversation.id == conversation.id
            assert len(served.model.prompts[-1].conversation) == size
        # Also after it has gone on with another agent, in another session.
        assert (await client.conversations.retrieve(conversation.id)).metadata == about
        items = await client.conversations.items.list(conversation.id, limit=3)
        assert (len(items.data), items.has_more) == (3, True)
        everything = [item async for item in client.conversations.items.list(conversation.id, order="asc", limit=3)]
        assert [item.role for item in everything] == ["user", "assistant"] * 4  # type: ignore[union-attr]
        await client.conversations.delete(conversation.id)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve(conversation.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="default", input="on", conversation=conversation.id)


async def test_an_unknown_conversation_or_item_is_not_found() -> None:
    async with talking() as (client, _):
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.list("conv_nobody")
        conversation = await client.conversations.create()
        assert (await client.conversations.items.list(conversation.id)).data == []
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.list(conversation.id, after="msg_nobody")


async def test_a_conversation_is_renamed_and_given_its_first_messages() -> None:
    async with talking() as (client, served):
        conversation = await client.conversations.create(metadata={"topic": "rain"})
        assert conversation.metadata == {"topic": "rain"}
        with pytest.raises(openai.BadRequestError, match="at most 16 pairs"):
            await client.conversations.update(conversation.id, metadata={str(number): "" for number in range(17)})
        assert (await client.conversations.update(conversation.id, metadata={"title": "Verses"})).metadata == {
            "title": "Verses"
        }
        added = await client.conversations.items.create(
            conversation.id, items=[{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        )
        assert [item.role for item in added.data] == ["user", "assistant"]  # type: ignore[union-attr]
        assert (await client.conversations.retrieve(conversation.id)).metadata == {"title": "Verses"}
        response = await client.responses.create(model="default", input="on", conversation=conversation.id)
        assert response.conversation is not None
        assert response.conversation.id == conversation.id
        assert len(served.model.prompts[-1].conversation) == 3
        with pytest.raises(openai.UnprocessableEntityError, match="has begun"):
            await client.conversations.items.create(conversation.id, items=[{"role": "user", "content": "three"}])
        await client.conversations.delete(conversation.id)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve(conversation.id)
