from typing import Any

import openai
import pytest
from tests.gateways.openai.fixtures import management
from tests.gateways.scene import scene


def by_reference(item: Any) -> dict[str, Any]:
    return {"type": "item_reference", "id": item.id}


def in_full(item: Any) -> dict[str, Any]:
    given: dict[str, Any] = item.model_dump(exclude_none=True)
    return given


@pytest.mark.parametrize("sent", [by_reference, in_full])
async def test_a_history_that_is_sent_with_each_request_is_one_conversation(sent: Any) -> None:
    async with scene() as served, openai.AsyncOpenAI(api_key="any", base_url=f"{served.http}/v1") as client:
        items: list[Any] = []
        for word, answer in (("think", "Yes."), ("tool", "Let me check.It is done."), ("and now", "and now")):
            items.append({"role": "user", "content": word})
            response = await client.responses.create(model="default", input=items)
            assert response.output_text == answer
            items += map(sent, response.output)
        turns = (await management(client, served, "/v1/turns"))["items"]
        assert (len(turns), len({turn["sessionId"] for turn in turns})) == (3, 1)
        told = served.model.prompts[-1].conversation
        # A question, an answer; a question, a call, its result, an answer; a question.
        assert len(told) == 7


async def test_a_history_that_was_changed_is_another_conversation_and_a_refused_message_leaves_its_own() -> None:
    async with scene() as served, openai.AsyncOpenAI(api_key="any", base_url=f"{served.http}/v1", max_retries=0) as client:
        first = await client.responses.create(model="default", input="one")
        said: Any = [{"role": "user", "content": "one"}, by_reference(first.output[0]), {"role": "user", "content": "two"}]
        with pytest.raises(openai.BadRequestError, match="empty"):
            await client.responses.create(model="default", input=[*said[:2], {"role": "user", "content": ""}])
        changed = [{"role": "user", "content": "another"}, *said[1:]]
        other = await client.responses.create(model="default", input=changed)
        same = await client.responses.create(model="default", input=said)
        assert same.conversation == first.conversation != other.conversation
        again = await client.responses.create(model="default", input=said)
        # The conversation has gone on: whoever says the same in the same place begins another one.
        assert again.conversation not in (first.conversation, other.conversation)


async def test_an_item_that_is_not_there_is_named() -> None:
    async with scene() as served, openai.AsyncOpenAI(api_key="any", base_url=f"{served.http}/v1") as client:
        first = await client.responses.create(model="default", input="one")
        item_id = first.output[0].id or ""
        for name in ("x", "msg_turn_none_0", f"{item_id[:-1]}1", item_id.replace("msg_", "fc_"), item_id.replace("_0", "-2_0")):
            given: Any = [{"type": "item_reference", "id": name}, {"role": "user", "content": "x"}]
            with pytest.raises(openai.NotFoundError, match=f"Item not found: {name}"):
                await client.responses.create(model="default", input=given)
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="default", input=[{"type": "item_reference", "id": item_id}])
