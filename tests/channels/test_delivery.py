"""What every channel does with a message; Telegram stands for all."""

from collections.abc import Sequence

from tests.channels.fake_telegram import BOT, telegram
from tests.channels.fixtures import LOOPBACK, office
from tests.channels.test_telegram import connect
from tests.support.serving import Play

from agentvm import Definition
from agentvm.drivers.base import Prompt, ToolResultsEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls
from agentvm.model.policy import Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings

ASKING = ToolSettings(network=LOOPBACK.network, policy=Policy(rules=(PolicyRule(do="ask", tool="calculator"),)))


async def test_commands_begin_stop_and_explain() -> None:
    play = Play()
    async with telegram() as fake, office(play) as desk:
        await connect(desk, fake)
        fake.say("/help")
        await fake.calls.wait(lambda _: any("/new" in text for text in fake.messages.values()))
        fake.say("slow")
        await fake.calls.wait(lambda _: any(text.startswith("w0") for text in fake.messages.values()))
        fake.say("/stop")
        await fake.shown("Stopped.")
        await fake.calls.wait(lambda _: any(text.endswith("(Stopped.)") for text in fake.messages.values()))
        fake.say("/new")
        await fake.shown("A new conversation begins with your next message.")
        fake.say("你好")
        await fake.shown("你好")
        fake.say("/stop")
        await fake.calls.wait(lambda _: list(fake.messages.values()).count("Stopped.") == 2)
        # That of the image, and two of the chat.
        assert len((await desk.call("GET", "/sessions"))["items"]) == 3


async def test_an_approval_is_asked_in_the_chat_and_answered_by_a_letter() -> None:
    async with telegram() as fake, office(tools=ASKING) as desk:
        await connect(desk, fake)
        for word, before in (("y", 1), ("n", 2)):
            fake.say("tool")
            await fake.counted("<b>calculator</b>", before)
            fake.say(word)
            await fake.counted("It is done.", before)
        asked = [text for text in fake.messages.values() if "2+3*4" in text]
        assert asked[0].startswith("Let me check.\n\nThe agent wants to use <b>calculator</b>")
        assert len(fake.messages) == 4
        # Without a call that waits, the letter is a message as any other.
        fake.say("y")
        await fake.shown("y")


ASKER = Definition(name="asker", tools=("ask_user",))


def inquire(prompt: Prompt) -> Sequence[ScriptStep]:
    """Asks the user, with options or without, then repeats the answer."""
    last = prompt.conversation[-1]
    if isinstance(last, ToolResultsEntry):
        return reply(f"So it is {last.results[0].output.text}.")
    word = last_user_text(prompt)
    asked: dict[str, dict[str, object]] = {
        "free": {"question": "Which city?"},
        "one": {"question": "Which colour?", "options": ["red", "blue"]},
        "many": {"question": "Which colours?", "options": ["red", "blue"], "multiple": True},
    }
    return tool_calls(("call_1", "ask_user", asked[word])) if word in asked else reply(f"New: {word}")


async def test_a_question_is_answered_by_the_next_message() -> None:
    async with telegram() as fake, office(inquire, definitions=[ASKER]) as desk:
        await connect(desk, fake, agent="asker")
        for word, question, said, answer in (
            ("free", "Which city?", "Oslo, I think", "Oslo, I think"),
            ("one", "Which colour?\n1. red\n2. blue", "2", "blue"),
            ("many", "Which colours?", "red，2", "red, blue"),
        ):
            fake.say(word)
            await fake.counted(question, 1)
            fake.say(said)
            await fake.shown(f"So it is {answer}.")
        # What is no answer is another message, and takes the place of the question.
        fake.say("one")
        await fake.counted("Which colour?", 2)
        fake.say("green")
        await fake.shown("New: green")


async def test_an_approval_that_is_given_elsewhere_goes_on_in_the_chat() -> None:
    async with telegram() as fake, office(tools=ASKING) as desk:
        await connect(desk, fake)
        fake.say("tool")
        await fake.calls.wait(lambda _: fake.messages)
        (wait,) = (await desk.call("GET", "/waits"))["items"]
        answer = {"fingerprint": wait["fingerprint"], "decision": "approve"}
        await desk.call("POST", f"/waits/{wait['waitId']}/answer", answer)
        await fake.shown("It is done.")


async def test_only_people_who_mean_the_bot_are_answered() -> None:
    async with telegram() as fake, office() as desk:
        await connect(desk, fake)
        fake.say("from a bot", sender={"id": 8, "is_bot": True})
        fake.say("own words", sender=BOT)
        fake.say("among us", chat=-5, kind="group")
        fake.say("from nowhere", chat=-5, kind="group", **{"from": None})
        fake.say("@avmbot to you", chat=-5, kind="group")
        await fake.shown("Ann: to you")
        fake.say("and this", chat=-5, kind="group", reply_to_message={"from": BOT})
        await fake.shown("Ann: and this")
        assert len(fake.messages) == 2
        sent = [body for method, body in fake.calls.items if method == "sendMessage"]
        assert all("message_id" in body["reply_parameters"] for body in sent)


async def test_errors_long_answers_and_files_reach_the_chat_and_the_agent() -> None:
    async with telegram() as fake, office() as desk:
        await connect(desk, fake)
        fake.say("fail")
        await fake.calls.wait(lambda _: any("provider_overloaded" in text for text in fake.messages.values()))
        fake.messages.clear()
        fake.say("many 1500")
        await fake.calls.wait(lambda _: "".join(fake.messages.values()).rstrip().endswith("1499"))
        assert len(fake.messages) == 2
        assert "".join(f"{text.strip()} " for text in fake.messages.values()).split() == [str(each) for each in range(1500)]
        fake.say("", photo=[{"file_id": "small"}, {"file_id": "large"}], caption="see")
        await fake.shown("see")
        assert ("getFile", {"file_id": "large"}) in fake.calls.items
        container = (await desk.call("GET", "/sessions"))["items"][0]["containerId"]
        files = (await desk.call("GET", f"/attachments?container={container}"))["items"]
        assert [file["mediaType"] for file in files] == ["image/jpeg"]


async def test_an_agent_that_is_gone_is_told_to_the_sender() -> None:
    async with telegram() as fake, office() as desk:
        await connect(desk, fake, agent="nobody")
        fake.say("hello")
        await fake.calls.wait(lambda _: any("definition_not_found" in text for text in fake.messages.values()))
