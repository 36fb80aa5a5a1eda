"""Resource search conformance — what a search must find, in which order, and who must not find it."""

from typing import Any

from agentvm.errors import InvalidInput
from agentvm.model.resource import SYSTEM_TENANT
from agentvm.storage.resources import Search
from agentvm.storage.sql.store import Store
from tests.conformance.resources import found, on, publication, put, resource_id
from tests.conformance.store import ACME, ODD, RIVAL, raises


async def check_words_are_found_as_people_write_them(store: Store) -> None:
    text = "Our Café serves 北京烤鸭 to Straße customers; it's snake_case."
    await put(store, publication("sales-v2", text=text, description="Greets", tags=("crm",)))
    for query in ("cafe", "CAFÉ", "caf", "北京", "烤鸭", "strasse", "sales", "v2", "sales-v2", "gre", "crm", "case", "it's"):
        assert await found(store, text=query) == ["sales-v2"], query
    for query in ("afe", "京北", "sales absent", "crmx", "café-our"):
        assert await found(store, text=query) == [], query
    assert await found(store, text="to our 北京 greets") == ["sales-v2"]


async def check_what_is_typed_is_never_syntax(store: Store) -> None:
    await put(store, publication("plain", text="one two"))
    for query in (
        "one OR three",
        'one" OR "x',
        "one NOT two",
        "name : plain",
        "NEAR(one two)",
        "one*two",
        "^one -",
        *ODD,
        "\x00",
    ):
        assert await found(store, text=query) in ([], ["plain"]), query
    for query in ("one OR three", "one NOT two", "text : one", "NEAR(one two)", "!!!", "\ud800"):
        assert await found(store, text=query) == [], query
    # A text of spaces is no text; quotation marks are no words.
    assert (await found(store, text="  "), await found(store, text='"one two"')) == (["plain"], ["plain"])


async def check_the_best_hit_comes_first(store: Store) -> None:
    filler = " and some more words that say nothing about it"
    await put(
        store,
        publication("d", text=f"falcon{filler}"),
        publication("c", text=filler, description="falcon"),
        publication("b", text=filler, tags=("falcon",)),
        publication("falcon", text=filler),
        *(publication(f"other-{number}", text=filler) for number in range(20)),
    )
    assert await found(store, text="falcon") == ["falcon", "b", "c", "d"]


async def check_every_member_of_a_search_narrows_it(store: Store) -> None:
    await put(
        store, publication("shared", of=RIVAL, visibility="public", tags=("x",)), publication("kept", of=RIVAL), tenant=RIVAL
    )
    await put(store, publication("built-in", of=SYSTEM_TENANT), tenant=SYSTEM_TENANT)
    await put(store, publication("alpha", tags=("x", "y"), visibility="public"), publication("beta", dependencies=[on(0)]))
    tool = publication("beta", type="tools", resource_id="res tool", version_id="rver tool")
    await put(store, tool, publication("gamma", text="alpha"))
    every: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["alpha", "beta", "beta", "built-in", "gamma", "shared"]),
        ({"scope": "own"}, ["alpha", "beta", "beta", "gamma"]),
        ({"scope": "public"}, ["built-in", "shared"]),
        ({"type": "tools"}, ["beta"]),
        ({"type": "prompts", "scope": "public"}, ["built-in", "shared"]),
        ({"tag": "x"}, ["alpha", "shared"]),
        ({"tag": "x", "scope": "own"}, ["alpha"]),
        ({"owner": "rival"}, ["shared"]),
        ({"owner": "acme", "type": "prompts"}, ["alpha", "beta", "gamma"]),
        ({"owner": "system"}, ["built-in"]),
        ({"owner": "nobody"}, []),
        ({"visibility": "public"}, ["alpha", "built-in", "shared"]),
        ({"visibility": "private"}, ["beta", "beta", "gamma"]),
        ({"depends_on": resource_id("alpha")}, ["beta"]),
        ({"depends_on": resource_id("kept", RIVAL)}, []),
    ]
    for search, expected in every:
        assert await found(store, **search) == expected, search
    assert await found(store, text="alpha") == ["alpha", "gamma"]
    assert await found(store, text="alpha", tag="y") == ["alpha"]
    assert [await found(store, text="shared", scope=scope) for scope in ("own", "public", "all")] == [
        [],
        ["shared"],
        ["shared"],
    ]
    assert (
        await found(store, text="kept"),
        await found(store, RIVAL, text="kept"),
        await found(store, RIVAL, text="gamma"),
    ) == (
        [],
        ["kept"],
        [],
    )


async def check_pages_hold_every_hit_once_while_others_write(store: Store) -> None:
    names = [f"item-{number:02}" for number in range(11)]
    await put(store, *(publication(name, text="pear") for name in names))
    await put(store, publication("item-aa", of=RIVAL, visibility="public", text="pear"), tenant=RIVAL)
    for text in (None, "pear"):
        seen: list[str] = []
        after, number = None, 0
        while True:
            hits = await store.resources(ACME).search(Search(text=text, after=after, limit=3))
            seen += [hit.resource.name for hit in hits.items]
            assert len(hits.items) <= 3
            after, number = hits.next, number + 1
            if after is None:
                break
            # Before and behind the place where the page ended; and another's, which is never seen.
            await put(store, publication(f"0-{text}-{number}", text="pear and plum" * number))
            await put(store, publication(f"kept-{text}-{number}", of=RIVAL, text="pear"), tenant=RIVAL)
        assert [name for name in seen if name.startswith("item")] == [*names, "item-aa"], text
        assert len(seen) == len(set(seen))
    assert (await store.resources(ACME).search(Search(limit=2))).total == await store.resources(ACME).count() + 1


async def check_a_place_tells_nothing_of_what_others_keep_to_themselves(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, *(publication(f"item-{number}", text="pear") for number in range(3)))
    before = (await ours.search(Search(limit=1, text="pear"))).next
    await put(store, *(publication(f"kept-{number}", of=RIVAL, text="pear") for number in range(9)), tenant=RIVAL)
    assert (await ours.search(Search(limit=1, text="pear"))).next == before


async def check_hits_bring_the_content_of_their_latest_version_if_asked_to(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, publication("a"), publication("a", "1.1.0"), publication("b"))
    await ours.yank(resource_id("b"), "1.0.0", 2, now=2)
    assert [hit.content for hit in (await ours.search(Search())).items] == [None, None]
    wanted = publication("a", "1.1.0").content
    assert [hit.content for hit in (await ours.search(Search(with_content=True))).items] == [wanted, None]


async def check_a_search_goes_on_though_the_last_hit_is_gone(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, *(publication(f"item-{number}", text="pear") for number in range(5)))
    page = await ours.search(Search(limit=2, text="pear"))
    seen = [hit.resource.resource_id for hit in page.items]
    await ours.delete(seen[-1], force=False, now=2)
    rest = await ours.search(Search(limit=9, text="pear", after=page.next))
    seen += [hit.resource.resource_id for hit in rest.items]
    assert (len(seen), len(set(seen))) == (5, 5)


async def check_a_place_that_is_none_is_refused(store: Store) -> None:
    ours = store.resources(ACME)
    await put(store, *(publication(f"item-{number}", text="pear") for number in range(3)))
    by_name = (await ours.search(Search(limit=1))).next
    by_weight = (await ours.search(Search(limit=1, text="pear"))).next
    assert by_name is not None
    assert by_weight is not None
    for after in ("", "x", "WyJhIl0=", "bnVsbA==", "北京", by_name[:-2], by_weight):
        assert await raises(InvalidInput, ours.search(Search(after=after))), after
    for after in ("", "e30=", "WzEsMV0=", by_name):
        assert await raises(InvalidInput, ours.search(Search(after=after, text="pear"))), after
