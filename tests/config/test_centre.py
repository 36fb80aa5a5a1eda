"""The centre: changes are whole, told, stored and followed, and nothing is half done."""

from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.config.fakes import Recording, Reversing, layer, made, open_centre
from tests.config.values import flat_values, plainly
from tests.support.examples import examples

from agentvm.config.catalogue import Value, plain
from agentvm.config.centre import ConfigCentre
from agentvm.config.layers import merge
from agentvm.errors import ConfigInvalid, DriverNotFound, InvalidInput, PreconditionFailed, StoreFailed
from agentvm.model.ids import TenantId
from agentvm.model.secret import Secret
from agentvm.model.setting import ChangeRequest
from agentvm.storage.engine import open_store
from agentvm.storage.settings import Change
from agentvm.storage.sql.settings import SettingsStore
from agentvm.storage.sql.store import Store

ACME = TenantId("acme")
ME = ChangeRequest(actor="me")


class Refusing(Store):
    """Takes no change."""

    def settings(self, tenant_id: TenantId | None) -> SettingsStore:
        class Full(SettingsStore):
            async def append(self, change: Change) -> None:
                raise StoreFailed("The disk is full")

        return Full(self._database, tenant_id)


async def test_a_change_counts_at_once_and_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with open_store(path) as store, open_centre(layer(limits__steps=5), store=store) as (centre, follower):
        outcome = await centre.change(None, {"limits.steps": 6, "llm.apiKey": "sk-planted"}, ME)
        assert (outcome.revision, outcome.live, outcome.restart) == (1, ("limits.steps", "llm.apiKey"), ())
        assert (centre.settings_of(None).limits.steps, centre.settings_of(ACME).limits.steps) == (6, 6)
        assert [config.limits.steps for config in follower.followed] == [6]
        assert {key: one.source.place for key, one in centre.shadowed.items()} == {"limits.steps": "f:1"}
    assert b"sk-planted" not in path.read_bytes()
    async with open_store(path) as store, open_centre(layer(limits__steps=5), store=store) as (centre, _):
        assert centre.settings_of(None).limits.steps == 6
        assert centre.config.llm.api_key is not None
        assert centre.config.llm.api_key.reveal() == "sk-planted"
        found = centre.values(None)["limits.steps"].source
        assert (found.place, found.actor, found.at) == ("change 1", "me", 7)


async def test_what_cannot_be_followed_is_not_stored() -> None:
    async with open_store(None) as store, open_centre(store=store) as (centre, follower):
        for failure in (ConfigInvalid("no such key"), DriverNotFound("no such driver")):
            follower.failing = failure
            for dry_run in (False, True):
                with pytest.raises(InvalidInput, match="no such"):
                    await centre.change(None, {"limits.steps": 6}, ChangeRequest(actor="me", dry_run=dry_run))
        assert await store.read_settings() == ()
        assert (centre.revision(None), centre.settings_of(None).limits.steps) == (0, 25)


async def test_what_cannot_be_stored_is_taken_back() -> None:
    async with open_store(None) as opened, open_centre(store=Refusing(opened._database)) as (centre, follower):
        with pytest.raises(StoreFailed):
            await centre.change(None, {"limits.steps": 6}, ME)
        assert [config.limits.steps for config in follower.followed] == [6, 25]
        assert (centre.revision(None), centre.settings_of(None).limits.steps, centre.config.limits.steps) == (0, 25, 25)
        with pytest.raises(StoreFailed):
            await centre.change(ACME, {"limits.steps": 6}, ME)
        assert centre.settings_of(ACME).limits.steps == 25


async def test_who_goes_away_meanwhile_leaves_a_whole_change_or_none() -> None:
    async with open_store(None) as store, open_centre(store=store) as (centre, follower):
        async with anyio.create_task_group() as tasks:
            follower.meanwhile = tasks.cancel_scope.cancel
            tasks.start_soon(centre.change, None, {"limits.steps": 6}, ME)
        assert [change.revision for _, change in await store.read_settings()] == [centre.revision(None)] == [1]
        assert centre.settings_of(None).limits.steps == 6


async def test_a_crash_between_storing_and_following_loses_nothing_that_was_stored() -> None:
    async with open_store(None) as store:
        centre, _ = await made((), store)
        await store.settings(None).append(Change(revision=1, at=1, actor="a", changes={"limits.steps": 6}))
        assert centre.settings_of(None).limits.steps == 25
        again, _ = await made((), store)
        assert (again.settings_of(None).limits.steps, again.revision(None)) == (6, 1)


async def test_settings_that_need_a_restart_wait_for_it() -> None:
    async with open_store(None) as store, open_centre(layer(system__port=1), store=store) as (centre, _):
        outcome = await centre.change(None, {"system.port": 2}, ME)
        assert (outcome.live, outcome.restart, centre.pending) == ((), ("system.port",), ("system.port",))
        assert (centre.config.system.port, centre.values(None)["system.port"].value) == (1, 2)
        back = await centre.change(None, {"system.port": 1}, ME)
        assert (back.restart, centre.pending) == ((), ())
        await centre.change(None, {"system.port": 3}, ME)
        again, _ = await made([layer(system__port=1)], store)
        assert (again.config.system.port, again.pending) == (3, ())


async def test_the_same_again_is_no_change() -> None:
    async with open_store(None) as store, open_centre(store=store) as (centre, _):
        await centre.change(None, {"llm.apiKey": "k", "limits.steps": 5}, ME)
        outcome = await centre.change(None, {"llm.apiKey": "k", "limits.steps": 5, "limits.inbox": None}, ME)
        assert (outcome.revision, dict(outcome.changed), len(await store.read_settings())) == (1, {}, 1)
        with pytest.raises(PreconditionFailed) as refused:
            await centre.change(None, {}, ChangeRequest(actor="me", revision=0))
        assert refused.value.details == {"revision": 1}


async def test_overrides_that_keep_the_server_from_starting_can_be_left_aside() -> None:
    async with open_store(None) as store:
        bad = {"llm.provider": "nobody", "system.oidc.issuer": "https://i", "limits.steps": 6}
        await store.settings(None).append(Change(revision=1, at=1, actor="a", changes=bad))
        with pytest.raises(ConfigInvalid, match="--no-overrides"):
            await made((), store)
        async with open_centre(store=store, ignore=True) as (centre, _):
            assert (centre.settings_of(None).limits.steps, centre.revision(None), centre.overridden) == (25, 1, False)
            await centre.change(None, {"llm": None, "system.oidc": None}, ME)
            assert (centre.settings_of(None).limits.steps, centre.overridden) == (6, True)
        await made((), store)


class Lost(Reversing):
    """Has another key than then."""

    def unseal(self, scope: str, name: str, sealed: bytes) -> Secret:
        raise ConfigInvalid("It was sealed with another server key")


async def test_a_secret_that_cannot_be_opened_any_more_can_be_left_aside_and_set_again() -> None:
    async with open_store(None) as store:
        before, _ = await made((), store)
        await before.change(None, {"llm.apiKey": "k", "limits.steps": 6}, ME)
        with pytest.raises(ConfigInvalid, match="--no-overrides"):
            await ConfigCentre((), store, Lost(), lambda: 7).load()
        centre = ConfigCentre((), store, Lost(), lambda: 7, ignore=True)
        await centre.load()
        await centre.change(None, {"llm.apiKey": None}, ME)
        assert (centre.settings_of(None).limits.steps, centre.config.llm.api_key) == (6, None)


async def test_a_tenants_choice_is_looked_up_and_gone_with_what_it_chose() -> None:
    async with open_centre() as (centre, _):
        await centre.change(None, {"llm.providers.backup": {"driver": "scripted", "model": "m"}}, ME)
        await centre.change(ACME, {"llm.provider": "backup", "limits.steps": 3}, ME)
        assert (centre.default_of(ACME), centre.default_of(TenantId("b"))) == ("backup", None)
        with pytest.raises(InvalidInput):
            await centre.change(ACME, {"llm.provider": "nobody"}, ME)
        await centre.change(None, {"llm.providers": None}, ME)
        assert (centre.default_of(ACME), centre.settings_of(ACME).limits.steps) == (None, 3)
        centre.forget(ACME)
        assert centre.settings_of(ACME).limits.steps == 25


async def test_a_tenants_model_names_its_provider_as_an_images_does() -> None:
    async with open_centre(layer(llm__provider="scripted")) as (centre, _):
        for model, default in (("openai/x", "openai/x"), ("x", "scripted/x"), ("scripted/a/b", "scripted/a/b")):
            await centre.change(ACME, {"llm.model": model}, ME)
            assert centre.default_of(ACME) == default
        with pytest.raises(InvalidInput, match="For a model of scripted write scripted/a/b"):
            await centre.change(ACME, {"llm.model": "a/b"}, ME)
        await centre.change(ACME, {"llm.provider": "openai", "llm.model": "a/b"}, ME)
        assert centre.default_of(ACME) == "openai/a/b"


async def test_where_a_value_could_come_from_is_told_from_the_weakest_on() -> None:
    async with open_centre(layer(limits__steps=9)) as (centre, _):
        await centre.change(None, {"limits.steps": 8}, ME)
        await centre.change(ACME, {"limits.steps": 7}, ME)
        assert [(one.layer, one.value) for one in centre.layers(ACME, "limits.steps")] == [
            ("default", 25), ("file", 9), ("override", 8), ("tenant", 7),
        ]  # fmt: skip
        assert centre.layers(None, "llm.model") == []


def as_changes(values: dict[str, Value], taken: list[str]) -> dict[str, object]:
    given = {key: value.reveal() if isinstance(value, Secret) else plain(value) for key, value in values.items()}
    return given | dict.fromkeys(taken)


@given(st.lists(flat_values(), min_size=1, max_size=5), st.data())
@settings(max_examples=examples(10, 250), deadline=None)
def test_the_history_gives_the_present_and_going_back_gives_the_past(
    edits: list[dict[str, Value]], data: st.DataObject
) -> None:
    async def walk() -> None:
        async with open_store(None) as store:
            centre, _ = await made((), store)
            seen = [snapshot(centre)]
            for edit in edits:
                known = sorted({key for key in centre.values(None) if centre.values(None)[key].layer == "override"})
                taken = data.draw(st.lists(st.sampled_from(known), unique=True, max_size=2)) if known else []
                try:
                    outcome = await centre.change(None, as_changes(edit, taken), ME)
                except InvalidInput:
                    continue
                if outcome.revision == len(seen):
                    seen.append(snapshot(centre))
                assert snapshot(centre) == seen[-1]
            again, _ = await made((), store)
            assert snapshot(again) == snapshot(centre)
            to = data.draw(st.integers(0, len(seen) - 1))
            await centre.rollback(None, to, ME)
            assert snapshot(centre) == seen[to]

    anyio.run(walk)


def snapshot(centre: ConfigCentre) -> dict[str, object]:
    return {key: plainly(one.value) for key, one in centre.values(None).items()}


async def test_a_revision_that_never_was_is_refused() -> None:
    async with open_centre() as (centre, _):
        for wrong in (-1, 1):
            with pytest.raises(InvalidInput, match="There is no revision"):
                await centre.rollback(None, wrong, ME)


def test_what_follows_is_bound_later() -> None:
    assert Recording().followed == []
    assert Reversing().seal("s", "n", Secret("ab")) == b"s|n|ba"
    assert merge(())["limits.steps"].value == 25
