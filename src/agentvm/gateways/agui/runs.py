"""AG-UI runs — a run is a turn of its thread, or the part of a turn after the answers that it waited for."""

from agentvm.errors import InvalidInput
from agentvm.gateways.agui.run_body import AgUiBody, read_answers, read_content, read_options
from agentvm.gateways.agui.run_events import AgUiEvents
from agentvm.gateways.blocks import WHOLE
from agentvm.gateways.client_calls import answer_waits
from agentvm.gateways.routes import Ask, GatewayReply, NoBody
from agentvm.gateways.sse import MEDIA_TYPE, stream_parts
from agentvm.gateways.talk import Talk
from agentvm.gateways.threads import open_thread, running_turn
from agentvm.model.session import Alias

THREADS = "agui"
"""The gateway of the aliases of threads."""


async def run(ask: Ask[AgUiBody], talk: Talk) -> GatewayReply:
    """Answers a run as events. The same run again is the same turn, told from its beginning."""
    body = ask.body
    answers = read_answers(body)
    content, options = ("", None) if answers else (read_content(body), read_options(body))
    session = await open_thread(ask, talk, Alias(THREADS, body.thread_id))
    stretch = WHOLE
    if answers:
        sent, stretch = await answer_waits(talk, session, answers)
    else:
        sent = await talk.send(session.session_id, content, key=body.run_id, options=options)
    tools = frozenset(tool.name for tool in sent.turn.options.tools) if sent.turn.options is not None else frozenset[str]()
    events = AgUiEvents(body.thread_id, body.run_id, sent.turn_id, stretch=stretch, client_tools=tools)
    headers = {"X-AVM-Session": sent.session_id, "X-AVM-Turn": sent.turn_id}
    return GatewayReply(content=stream_parts(talk, sent, events, interrupts=False), media_type=MEDIA_TYPE, headers=headers)


async def stop(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Stops the run of a thread: a page that only leaves does not stop it."""
    talk.principal.require("agent:use")
    thread_id = ask.query.get("threadId")
    if not thread_id:
        raise InvalidInput("threadId is required: the thread whose run is to be stopped")
    sent = await running_turn(ask, talk, Alias(THREADS, thread_id))
    if sent is not None:
        await talk.stop(sent)
    return GatewayReply(content=b"", status=204)
