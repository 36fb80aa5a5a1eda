"""Questions of nodes are read by whom they are for, and their answers by who asked."""

from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql.node_asks import NodeQuestionStore


async def test_a_question_is_in_the_inbox_until_it_is_answered_and_the_answer_until_it_is_taken(
    database: SqliteDatabase,
) -> None:
    asks = NodeQuestionStore(database)
    number = await asks.put(0, b"what?")
    assert await asks.read_pending([number]) == (((number, b"what?"),), ())
    await asks.reply(number, b"this")
    assert await asks.read_pending([number]) == ((), ((number, b"this"),))
    await asks.drop_old()
    assert await asks.read_pending([number]) == ((), ((number, b"this"),))
    await asks.drop(number)
    assert await asks.read_pending([number]) == ((), ())
