"""Turn work — one turn from its beginning to its end, by the agent that answers, and by those that it hands over to."""

from typing import TYPE_CHECKING

from agentvm.runtime.accepted import Accepted
from agentvm.runtime.acting_agent import acting_image
from agentvm.runtime.answering import Answering
from agentvm.runtime.session_log import SessionLog

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent


async def work_on(agent: "Agent", log: SessionLog, accepted: Accepted) -> None:
    """Returns when the turn has ended by itself or is parked; raises the error that ended it otherwise."""
    while True:
        accepted.switched = False
        image, accepted.agent = await acting_image(agent, accepted.origin)
        await Answering(agent.ports, image, log, accepted).run()
        if not accepted.switched:
            return
