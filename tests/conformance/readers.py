"""Reader conformance — what the store must remember on every engine of readers."""

from agentvm.model.ids import SessionId
from agentvm.storage.base import ReaderPlace
from agentvm.storage.sql.store import Store
from tests.conformance.log import PLENTY_BYTES, chunk, write
from tests.conformance.records import IMAGE, SESSION, image
from tests.conformance.store import ACME, ODD, RIVAL, settle

OTHER = SessionId("img_2-default")


async def check_a_reader_is_taken_once_as_it_was_saved(store: Store) -> None:
    await settle(store, image(), image("img_2"))
    tenant = store.tenant(ACME)
    assert await tenant.take_reader("reader-1") == {}
    places = {SESSION: ReaderPlace(7, 1), OTHER: ReaderPlace(0, 2)}
    await tenant.save_reader("reader-1", places)
    assert await tenant.take_reader("reader-1") == places
    assert await tenant.take_reader("reader-1") == {}


async def check_a_reader_saved_again_is_as_it_was_saved_last(store: Store) -> None:
    await settle(store, image(), image("img_2"))
    tenant = store.tenant(ACME)
    await tenant.save_reader("reader-1", {SESSION: ReaderPlace(7, 1), OTHER: ReaderPlace(7, 1)})
    await tenant.save_reader("reader-1", {SESSION: ReaderPlace(5, 2)})
    assert await tenant.take_reader("reader-1") == {SESSION: ReaderPlace(5, 2)}
    await tenant.save_reader("reader-1", {SESSION: ReaderPlace(7, 1)})
    await tenant.save_reader("reader-1", {})
    assert await tenant.take_reader("reader-1") == {}


async def check_a_place_without_a_number_is_the_end_of_the_log(store: Store) -> None:
    await settle(store, image(), image("img_2"))
    for each in (chunk(1, 3), chunk(4, 9)):
        await store.commit([write(log=each)])
    tenant = store.tenant(ACME)
    await tenant.save_reader("reader-1", {SESSION: ReaderPlace(None, 1), OTHER: ReaderPlace(None, 1)})
    await store.commit([write(log=chunk(10, 11))])
    assert await tenant.take_reader("reader-1") == {SESSION: ReaderPlace(9, 1), OTHER: ReaderPlace(0, 1)}


async def check_readers_never_mix(store: Store) -> None:
    await settle(store, image())
    await settle(store, image("img_2"), tenant=RIVAL)
    acme, rival = store.tenant(ACME), store.tenant(RIVAL)
    await acme.save_reader("reader-1", {SESSION: ReaderPlace(7, 1)})
    await acme.save_reader("reader-2", {SESSION: ReaderPlace(8, 1)})
    # A session of somebody else is not there.
    await rival.save_reader("reader-1", {SESSION: ReaderPlace(9, 1), OTHER: ReaderPlace(3, 1)})
    assert await rival.take_reader("reader-1") == {OTHER: ReaderPlace(3, 1)}
    assert await acme.take_reader("reader-1") == {SESSION: ReaderPlace(7, 1)}
    assert await acme.take_reader("reader-2") == {SESSION: ReaderPlace(8, 1)}


async def check_a_session_that_is_gone_is_in_no_reader(store: Store) -> None:
    home = await settle(store, image(), image("img_2"))
    tenant = store.tenant(ACME)
    await tenant.save_reader(
        "reader-1", {SESSION: ReaderPlace(7, 1), OTHER: ReaderPlace(7, 1), SessionId("never"): ReaderPlace(None, 1)}
    )
    await home.delete_image(IMAGE)
    assert await tenant.take_reader("reader-1") == {OTHER: ReaderPlace(7, 1)}


async def check_old_places_go_with_the_log(store: Store) -> None:
    await settle(store, image(), image("img_2"))
    tenant = store.tenant(ACME)
    await tenant.save_reader("reader-1", {SESSION: ReaderPlace(7, 1), OTHER: ReaderPlace(7, 2)})
    assert await store.trim_log(2, PLENTY_BYTES) == 0
    assert await tenant.take_reader("reader-1") == {OTHER: ReaderPlace(7, 2)}


async def check_odd_names_of_readers_are_only_text(store: Store) -> None:
    await settle(store, image())
    tenant = store.tenant(ACME)
    for number, odd in enumerate(ODD):
        await tenant.save_reader(odd, {SESSION: ReaderPlace(number, 1)})
    for number, odd in enumerate(ODD):
        assert await tenant.take_reader(odd) == {SESSION: ReaderPlace(number, 1)}
