"""Files of sessions against a dictionary: random writes, uploads, rewinds and forks give the files that a model of them has."""

from dataclasses import dataclass, field

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.records import SESSION, image, message, session
from tests.conformance.session_files import change as commit_change
from tests.conformance.session_files import contents, rewind
from tests.conformance.store import settle

from agentvm.model.ids import SessionId
from agentvm.storage.engine import open_store
from agentvm.storage.sql.session_files import PIECE_FILES_MAX
from agentvm.storage.sql.store import Store

PATHS = ("a", "b", "dir/c", "dir/d")
Files = dict[str, bytes | None]
changes: st.SearchStrategy[Files] = st.dictionaries(
    st.sampled_from(PATHS), st.none() | st.sampled_from([b"", b"1", b"22", b"333"]), min_size=1, max_size=3
)
steps = st.lists(
    st.tuples(st.just("call"), changes)
    | st.tuples(st.just("upload"), changes)
    | st.tuples(st.just("rewind"), st.integers(1, 3))
    | st.tuples(st.just("fork"), st.integers(0, 4)),
    max_size=12,
)


@dataclass
class Model:
    """The messages of a session that stand, each with the changes that came with it or after it."""

    history: list[tuple[str, list[Files]]] = field(default_factory=lambda: [("", [])])

    def files(self, upto: int | None = None) -> dict[str, bytes]:
        state: dict[str, bytes] = {}
        for _, deltas in self.history[: None if upto is None else upto + 1]:
            for delta in deltas:
                for path, body in delta.items():
                    if body is None:
                        state.pop(path, None)
                    else:
                        state[path] = body
        return state


async def play(store: Store, plan: list[tuple[str, object]]) -> None:
    home = await settle(store, image())
    model = Model()
    for number, (kind, value) in enumerate(plan):
        if kind == "call":
            assert isinstance(value, dict)
            await commit_change(store, value, f"m{number}", now=number)
            model.history.append((f"m{number}", [value]))
        elif kind == "upload":
            assert isinstance(value, dict)
            await commit_change(store, value, now=number)
            model.history[-1][1].append(value)
        elif kind == "rewind":
            assert isinstance(value, int)
            taken = [name for name, _ in model.history[1:][-value:]]
            if taken:
                await rewind(store, *taken)
                del model.history[-len(taken) :]
        else:
            assert isinstance(value, int)
            kept = model.history[: value + 1]
            said = [message(name) for name, _ in kept[1:]]
            await home.add_session(session(f"fork{number}"), said, files_of=SESSION)
            assert await contents(home, SessionId(f"fork{number}")) == model.files(len(kept) - 1)
        while await store.collect(10_000_000, grace=1):
            pass
        assert await contents(home) == model.files()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(plan=steps)
def test_files_equal_a_dictionary(plan: list[tuple[str, object]]) -> None:
    async def run() -> None:
        async with open_store(None) as store:
            await play(store, plan)

    anyio.run(run)


async def test_many_files_are_one_change(store: Store) -> None:
    home = await settle(store, image())
    files: Files = {f"f{number:04}": str(number).encode() for number in range(3 * PIECE_FILES_MAX)}
    await commit_change(store, files, "m1")
    assert await contents(home) == files
