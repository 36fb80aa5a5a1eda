import anyio
from tests.server.http.fixtures import Reply, open_world

from agentvm.model.account import Quota


async def test_a_message_is_answered_when_its_turn_has_ended() -> None:
    async with open_world() as world:
        said = {"content": "hello", "thread": "mine", "clientMessageId": "k1"}
        first = await world.ask("POST", "/v1/messages", said, key=world.acme.user)
        assert first.status == 200
        assert (first.body["text"], first.body["outcome"]) == ("hello", "completed")
        again = await world.ask("POST", "/v1/messages", said, key=world.acme.user)
        assert again.body == first.body
        other = await world.ask("POST", "/v1/messages", {**said, "clientMessageId": "k2"}, key=world.acme.user)
        assert other.body["sessionId"] == first.body["sessionId"]
        assert other.body["turnId"] != first.body["turnId"]
        known = {"content": "more", "sessionId": first.body["sessionId"], "wait": False}
        accepted = await world.ask("POST", "/v1/messages", known, key=world.acme.user)
        assert accepted.body["sessionId"] == first.body["sessionId"]
        assert "outcome" not in accepted.body
        # One image and one session were created; further messages create nothing.
        assert sorted(action for action, _, _ in await world.audit(world.acme.tenant_id)) == ["image.create", "session.open"]


async def test_a_message_that_is_sent_twice_begins_one_turn_without_a_thread_too() -> None:
    async with open_world() as world:

        async def ask(**said: object) -> Reply:
            return await world.ask("POST", "/v1/messages", {"content": "hello", **said}, key=world.acme.user)

        first = await ask(clientMessageId="k1")
        assert (await ask(clientMessageId="k1")).body == first.body
        streamed = await ask(clientMessageId="k1", stream=True)
        assert f'"turnId":"{first.body["turnId"]}"' in streamed.raw.decode()
        for elsewhere in ({"thread": "mine"}, {"clientMessageId": "k2"}, {"thread": "mine", "clientMessageId": "k3"}):
            other = await ask(**{"clientMessageId": "k1", **elsewhere})
            assert other.body["turnId"] != first.body["turnId"], elsewhere
        foreign = await world.ask("POST", "/v1/messages", {"content": "hello", "clientMessageId": "k1"}, key=world.bolt.user)
        assert foreign.body["sessionId"] != first.body["sessionId"]
        assert len((await world.ask("GET", "/v1/turns", key=world.acme.admin)).items) == 4


async def test_another_text_under_the_name_of_a_message_is_refused() -> None:
    async with open_world() as world:
        for place in ({}, {"thread": "mine"}):
            said = {"content": "hello", "clientMessageId": "k1", **place}
            assert (await world.ask("POST", "/v1/messages", said, key=world.acme.user)).status == 200
            other = await world.ask("POST", "/v1/messages", {**said, "content": "bye"}, key=world.acme.user)
            assert (other.status, other.code) == (422, "unprocessable")
        assert len((await world.ask("GET", "/v1/turns", key=world.acme.admin)).items) == 2


async def test_of_many_equal_messages_at_once_one_begins_a_turn() -> None:
    async with open_world() as world:
        answers: list[str] = []

        async def send() -> None:
            said = {"content": "hello", "clientMessageId": "k1"}
            answers.append((await world.ask("POST", "/v1/messages", said, key=world.acme.user)).body["turnId"])

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(send)
        assert len(answers) == 8
        assert len(set(answers)) == 1


async def test_a_message_is_answered_as_events_whose_ids_are_cursors() -> None:
    async with open_world() as world:
        reply = await world.ask("POST", "/v1/messages", {"content": "hello", "stream": True}, key=world.acme.user)
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        events = [piece for piece in reply.raw.decode().split("\n\n") if piece.startswith("id: ")]
        assert [int(event.split("\n")[0].removeprefix("id: ")) for event in events] == list(range(1, len(events) + 1))
        assert "event: turn_response" in events[-1]


async def test_a_message_needs_the_right_to_read_the_answer_and_one_address() -> None:
    async with open_world() as world:
        mute = await world.key(world.acme.tenant_id, ["agent:use"])
        assert (await world.ask("POST", "/v1/messages", {"content": "hi"}, key=mute)).code == "permission_denied"
        both = {"content": "hi", "sessionId": "sess_x", "thread": "t"}
        assert (await world.ask("POST", "/v1/messages", both, key=world.acme.user)).code == "invalid_input"
        nobody = {"content": "hi", "agent": "nobody"}
        assert (await world.ask("POST", "/v1/messages", nobody, key=world.acme.user)).code == "definition_not_found"
        chosen = {"content": "hi", "options": {"model": "scripted/other"}}
        assert (await world.ask("POST", "/v1/messages", chosen, key=world.acme.user)).code == "unprocessable"


async def test_an_option_that_nobody_reads_is_refused_and_the_right_one_named() -> None:
    async with open_world() as world:
        for route in ("/v1/messages", "/v1/run"):
            said = {"content": "hi", "options": {"max_tokens": 5}}
            refused = await world.ask("POST", route, said, key=world.acme.user)
            assert (refused.status, refused.code) == (400, "invalid_input")
            assert "no field options.max_tokens; did you mean maxTokens?" in refused.body["error"]["message"]
        known = {"content": "hi", "options": {"maxTokens": 5, "tools": [{"name": "t"}]}}
        assert (await world.ask("POST", "/v1/messages", known, key=world.acme.user)).status == 200
        assert len((await world.ask("GET", "/v1/turns", key=world.acme.admin)).items) == 1


async def test_an_answer_of_a_wanted_form_is_given_as_json_or_as_a_failure() -> None:
    form = {"name": "n", "schema": {"type": "object", "required": ["n"]}}
    async with open_world() as world:
        fits = await world.ask("POST", "/v1/messages", {"content": '{"n": null}', "output": form}, key=world.acme.user)
        assert (fits.body["output"], fits.body["text"]) == ({"n": None}, '{"n": null}')
        misfit = await world.ask("POST", "/v1/messages", {"content": "[]", "output": form}, key=world.acme.user)
        assert (misfit.body["outcome"], misfit.body["error"]["code"]) == ("failed", "output_misfit")
        twice = {"content": "x", "output": form, "options": {"output": form}}
        assert (await world.ask("POST", "/v1/messages", twice, key=world.acme.user)).code == "invalid_input"
        wrong = {"content": "x", "output": {"name": "n", "schema": {"type": "nothing"}}}
        assert (await world.ask("POST", "/v1/messages", wrong, key=world.acme.user)).code == "unprocessable"


async def test_a_stream_for_which_there_is_no_room_begins_no_turn() -> None:
    async with open_world() as world:
        await world.vm.tenancy.store.accounts(world.acme.tenant_id).quotas.put(Quota(metric="connections", hard=0), 1)
        said = {"content": "hi", "stream": True}
        assert (await world.ask("POST", "/v1/messages", said, key=world.acme.user)).code == "quota_exceeded"
        chat = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        assert (await world.ask("POST", "/v1/chat/completions", chat, key=world.acme.user)).status == 429
        assert (await world.ask("GET", "/v1/turns", key=world.acme.user)).items == []


async def test_of_many_first_messages_of_a_thread_one_creates_its_session() -> None:
    async with open_world() as world:
        sessions: set[str] = set()

        async def say(number: int) -> None:
            said = {"content": "hi", "thread": "busy", "clientMessageId": f"k{number}"}
            sessions.add((await world.ask("POST", "/v1/messages", said, key=world.acme.user)).body["sessionId"])

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(say, number)
        assert len(sessions) == 1
