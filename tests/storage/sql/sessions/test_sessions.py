from tests.conformance.records import HOME, image, session, turn
from tests.conformance.sessions import said
from tests.conformance.store import ACME, settle

from agentvm.model.ids import SessionId, TurnId
from agentvm.storage.engine import open_store


async def test_of_a_deleted_session_neither_its_turns_nor_its_size_are_seen() -> None:
    async with open_store(None) as store:
        home = await settle(store, image())
        other = SessionId("s2")
        await home.add_session(session(other))
        await home.log(other).record(messages=[said("m1", "hello", 1)], turns=[turn("t1", outcome="completed", ended=2)], now=2)
        tenant, carrier = store.tenant(ACME), store.carrier(ACME)
        assert await tenant.find_turn(TurnId("t1")) is not None
        assert await carrier.measure(HOME) > 0
        assert await tenant.sessions((HOME,)).delete(other, 8) is not None
        assert await tenant.find_turn(TurnId("t1")) is None
        assert await carrier.measure(HOME) == 0
