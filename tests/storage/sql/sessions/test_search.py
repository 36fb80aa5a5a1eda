"""The search against a naive scan of all that was said, on generated text in several languages at once."""

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.conformance.records import HOME, SESSION, image, session
from tests.conformance.session_search import ids
from tests.conformance.sessions import answered, mine, said
from tests.conformance.store import ACME, RIVAL, settle
from tests.support.examples import examples

from agentvm.model.ids import ContainerId, MessageId, RewindId, SessionId
from agentvm.storage.base import Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sessions import MessageSearch
from agentvm.storage.sql.sessions.question import pieces_of
from agentvm.storage.sql.sessions.search import MONTH_MS, weigh
from agentvm.storage.sql.words import terms

WORDS = tuple("deploy deployed Café straße it's read_file v2 上海 天气 上 海天 東京タワー 한국어 naïve".split())
GLUE = ("", " ", "，", ". ", "\n", "-")

texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GLUE)), max_size=8).map(
    lambda parts: "".join(word + glue for word, glue in parts)
)
questions = st.one_of(
    texts,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    st.sampled_from(WORDS).map(lambda word: word[:3]),
    st.text(max_size=10),
)


def naive(said_texts: list[str], asked: str) -> set[int]:
    """Every text that has every piece somewhere."""
    pieces = pieces_of(asked)
    return {
        number
        for number, text in enumerate(said_texts)
        if pieces and all(any(piece.matches(terms(text), at) for at in range(len(terms(text)))) for piece in pieces)
    }


@settings(max_examples=examples(30, 1500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(texts | st.text(max_size=30), max_size=12), st.lists(questions, min_size=1, max_size=6))
@example(["用 Python 写上海天气"], ["上海天气", "海天", "python", "pyth 气"])
def test_a_search_finds_what_a_scan_of_everything_finds(told: list[str], asked: list[str]) -> None:
    async def run() -> None:
        async with open_store(None) as store:
            for tenant in (ACME, RIVAL):
                home = await settle(store, image(), tenant=tenant)
                messages = [(said if number % 2 else answered)(f"m{number}", text, number) for number, text in enumerate(told)]
                await home.log(SESSION).record(messages=messages, now=2)
            for question in asked:
                found = await ids(mine(store), question, limit=50)
                assert len(found) == len(set(found))
                assert {int(name[1:]) for name in found} == naive(told, question), question

    anyio.run(run)


@settings(max_examples=examples(25, 1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text("上海天气北京今日好", min_size=1, max_size=12), st.data())
def test_every_part_of_a_chinese_sentence_finds_it(sentence: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sentence) - 1))
    part = sentence[start : data.draw(st.integers(start + 1, len(sentence)))]

    async def run() -> None:
        async with open_store(None) as store:
            home = await settle(store, image())
            await home.log(SESSION).record(messages=[said("1", f"Note: {sentence}。 end")], now=2)
            assert await ids(mine(store), part) == ["1"]

    anyio.run(run)


async def test_of_very_many_hits_the_newest_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.storage.sql.sessions.search.RANKED_MAX", 5)
    async with open_store(None) as store:
        home = await settle(store, image())
        await home.log(SESSION).record(messages=[said(f"m{n}", "needle", n) for n in range(9)], now=2)
        page = await mine(store).search(MessageSearch(text="needle"))
        assert (page.total, page.capped) == (5, True)
        assert [item.message_id for item in page.items] == ["m8", "m7", "m6", "m5", "m4"]


async def test_many_containers_are_asked_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.storage.sql.sessions.search.CONTAINERS_MAX", 2)
    async with open_store(None) as store:
        for number in range(5):
            home = await settle(store, image(f"i{number}", f"c{number}"), container=f"c{number}")
            await home.log(SessionId(f"i{number}-default")).record(messages=[said(f"m{number}", "needle", number)], now=2)
        assert set(await ids(store.tenant(ACME).sessions(None), "needle")) == {f"m{number}" for number in range(5)}
        assert set(await ids(store.tenant(ACME).sessions([ContainerId("c4"), HOME]), "needle")) == {"m4"}


def test_what_is_new_weighs_up_to_twice_as_much() -> None:
    assert weigh(-1.0, 0) == weigh(-1.0, -5) == -2.0
    assert weigh(-1.0, MONTH_MS) == -1.5
    assert -1.1 < weigh(-1.0, 100 * MONTH_MS) < -1.0


async def test_the_database_weighs_as_the_rule_says() -> None:
    async with open_store(None) as store:
        home = await settle(store, image())
        await home.log(SESSION).record(messages=[said(str(month), "needle", month * MONTH_MS) for month in range(4)], now=2)
        for now in (0, 2 * MONTH_MS, 9 * MONTH_MS):
            page = await store.tenant(ACME).sessions([HOME]).search(MessageSearch(text="needle", now=now))
            ages = [now - found.at for found in page.items]
            assert [weigh(-1.0, age) for age in ages] == sorted(weigh(-1.0, age) for age in ages)


async def test_the_number_of_a_hit_is_its_own_in_its_own_session_as_far_as_it_stands() -> None:
    async with open_store(None) as store:
        home = await settle(store, image())
        await home.add_session(session("other"))
        for number in range(12):
            for name, hit in ((SESSION, number % 3 == 0), (SessionId("other"), number % 4 == 1)):
                await home.log(name).record(messages=[said(f"{name}-{number}", "needle" if hit else "hay")], now=1)
        back = Rewinding(RewindId("r"), (MessageId(f"{SESSION}-1"),), 2)
        await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=2, rewind=back)])
        found = (await mine(store).search(MessageSearch(text="needle", limit=100))).items
        numbers = {name: sorted(one.position for one in found if one.session.session_id == name) for name in (SESSION, "other")}
        assert numbers == {SESSION: [0, 2, 5, 8], "other": [1, 5, 9]}
        page = (await mine(store).search(MessageSearch(text="needle", limit=2))).items
        assert all(one.position in numbers[one.session.session_id] for one in page)
