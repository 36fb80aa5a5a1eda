"""Turn starter — starts the turns of schedules and triggers, as their creator and with the creator's current permissions."""

from collections.abc import Callable
from dataclasses import dataclass

import anyio
import msgspec

from agentvm.errors import AccessDenied, SessionNotFound, StoreFailed
from agentvm.model.ids import SessionId, TenantId, TurnId
from agentvm.model.image import Image
from agentvm.model.message import UserContent
from agentvm.model.principal import Principal
from agentvm.model.schedule import SourceRun, TurnSource
from agentvm.model.session import SOURCES, Alias
from agentvm.model.turn import TurnOrigin
from agentvm.sessions.library import SessionLibrary
from agentvm.sessions.sender import MessageSender, UnattendedStart
from agentvm.sessions.workspace import Workspace
from agentvm.tenants.access import Access

PERMISSION = "agent:use"
START_SECONDS = 60.0
"""Time that the beginning of a turn takes at most; one that takes longer is begun again, under the same key."""


@dataclass(frozen=True, slots=True)
class StartedTurn:
    session_id: SessionId
    turn_id: TurnId
    is_new: bool
    """False for a turn that was begun earlier under the same key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarter:
    access: Access
    workspace_of: Callable[[Principal, TenantId], Workspace]

    async def start(
        self,
        tenant_id: TenantId,
        source: TurnSource,
        origin: TurnOrigin,
        content: UserContent,
        run: SourceRun,
        *,
        tainted: bool,
    ) -> StartedTurn:
        """Begins the turn of a run, once for each key. The commit that accepts it holds the run.

        `ImageNotFound` or `SessionNotFound` when there is nothing to run any more; else as sending a message fails.
        """
        workspace = self.workspace_of(await self._principal(tenant_id, source), tenant_id)
        sender = MessageSender(workspace)
        sender.check_accepting()
        with anyio.move_on_after(START_SECONDS):
            image, session_id = await self._place(workspace, source, run)
            agent, _ = workspace.runtime.start_agent(tenant_id, image, session_id)
            with agent.in_use():
                sent = await sender.send(
                    agent,
                    content,
                    client_key=run.client_key,
                    on_parked="queue",
                    unattended=UnattendedStart(origin, run, tainted),
                )
                sent.release()
            return StartedTurn(session_id, sent.turn_id, sent.accepted is not None)
        raise StoreFailed(f"The turn could not be begun within {START_SECONDS:g} seconds")

    async def _principal(self, tenant_id: TenantId, source: TurnSource) -> Principal:
        """Returns the maker, limited to the container; `AccessDenied` when that has no right to it any more."""
        key_id = source.key_id if source.user_id is None else None
        principal = await self.access.recall(tenant_id, source.user_id, key_id)
        if principal is None or principal.tenant_id != tenant_id:
            raise AccessDenied("The user who created it no longer has access")
        principal.require(PERMISSION)
        if not principal.reaches(source.container_id):
            raise AccessDenied("The user who created it may no longer use the container")
        return msgspec.structs.replace(principal, containers=(source.container_id,))

    async def _place(self, workspace: Workspace, source: TurnSource, run: SourceRun) -> tuple[Image, SessionId]:
        _, image = await workspace.image(source.image_id)
        if source.session_id is not None:
            _, session = await workspace.session(source.session_id)
            if session.image_id != image.image_id:
                raise SessionNotFound(source.session_id)
            return image, session.session_id
        # The session of one run is found again by its key, should the server die before the turn is accepted.
        external = run.source_id if source.session_mode == "same" else run.client_key
        session, _ = await SessionLibrary(workspace).open(image.image_id, Alias(SOURCES, external), title=source.name)
        return image, session.session_id
