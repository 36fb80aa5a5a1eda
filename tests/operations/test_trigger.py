"""Triggers, over the management API; requests to them are in `tests/schedules/test_triggers.py`."""

from tests.server.http.fixtures import open_world

ALL = "/v1/triggers"
NEW = {"agent": "default", "message": "Handle it", "container": "shared"}


async def test_a_trigger_is_created_listed_changed_and_deleted_and_its_secret_is_shown_once() -> None:
    async with open_world() as world:
        user = world.acme.user
        made = (await world.ask("POST", ALL, NEW, key=user)).body
        assert made["secret"].startswith("whsec_")
        assert (made["sessionMode"], made["path"]) == ("new", f"{ALL}/{made['triggerId']}")
        one = made["path"]
        (listed,) = (await world.ask("GET", ALL, key=user)).items
        assert "secret" not in listed
        assert (await world.ask("GET", one, key=user)).body == listed
        changed = (await world.ask("PUT", one, {"name": "Orders", "enabled": False}, key=user)).body
        assert (changed["name"], changed["enabled"]) == ("Orders", False)
        assert (await world.ask("POST", f"{one}/rotate", key=user)).body["secret"] != made["secret"]
        assert (await world.ask("GET", f"{one}/runs", key=user)).items == []
        rows = await world.vm.store._database.read(lambda connection: connection.fetch("SELECT * FROM triggers"))
        assert made["secret"] not in repr(rows)
        assert (await world.ask("DELETE", one, key=user)).status in (200, 204)
        for method, path in (("GET", one), ("DELETE", one), ("PUT", one), ("POST", f"{one}/rotate"), ("GET", f"{one}/runs")):
            assert (await world.ask(method, path, {} if method == "PUT" else None, key=user)).status == 404
