from tests.server.http.fixtures import World, open_world

from agentvm.model.ids import ContainerId


async def create(world: World, name: str, **about: object) -> str:
    made = await world.ask("POST", "/v1/images", {"config": {"name": name}, **about}, key=world.acme.admin)
    assert made.status == 201, made.raw
    return str(made.body["image"]["imageId"])


async def test_an_image_is_built_shown_and_deleted() -> None:
    async with open_world() as world:
        image_id = await create(world, "Seller", container="shop")
        shown = await world.ask("GET", f"/v1/images/{image_id}", key=world.acme.admin)
        assert (shown.body["name"], shown.body["containerId"]) == ("Seller", "shop")
        assert (await world.ask("DELETE", f"/v1/images/{image_id}", key=world.acme.admin)).status == 204
        for method in ("GET", "DELETE"):
            gone = await world.ask(method, f"/v1/images/{image_id}", key=world.acme.admin)
            assert (gone.status, gone.code) == (404, "image_not_found")
        actions = [entry[:2] for entry in await world.audit(world.acme.tenant_id)]
        assert ("image.create", image_id) in actions
        assert ("image.delete", image_id) in actions


async def test_without_a_container_it_is_the_askers_own_or_the_default_one() -> None:
    async with open_world() as world:
        for key, container in ((world.acme.admin, "default"), (world.acme.user, "user-alice")):
            made = await world.ask("POST", "/v1/images", {}, key=key)
            assert made.body["image"]["containerId"] == container
        by_pattern = await world.key(world.acme.tenant_id, ["images:write"], containers=["team-*"])
        refused = await world.ask("POST", "/v1/images", {}, key=by_pattern)
        assert (refused.status, refused.code) == (400, "invalid_input")


async def test_a_list_goes_by_container_and_age_page_by_page() -> None:
    async with open_world() as world:
        for number, container in enumerate(("b", "a", "b", "a", "c")):
            world.clock.now += 1
            await create(world, str(number), container=container)
        names, path = [], "/v1/images?limit=2"
        while True:
            page = (await world.ask("GET", path, key=world.acme.admin)).body
            names += [item["name"] for item in page["items"]]
            if "nextCursor" not in page:
                break
            path = f"/v1/images?limit=2&cursor={page['nextCursor']}"
        assert names == ["3", "1", "2", "0", "4"]
        of_one = await world.ask("GET", "/v1/images?container=a", key=world.acme.admin)
        assert [item["name"] for item in of_one.items] == ["3", "1"]
        wrong = await world.ask("GET", "/v1/images?cursor=zz", key=world.acme.admin)
        assert (wrong.status, wrong.code) == (400, "invalid_input")


async def test_a_user_sees_the_images_of_their_own_containers() -> None:
    async with open_world() as world:
        await create(world, "hidden", container="elsewhere")
        await create(world, "seen", container="shared")
        found = await world.ask("GET", "/v1/images", key=world.acme.user)
        assert [item["name"] for item in found.items] == ["seen"]
        refused = await world.ask("GET", "/v1/images?container=elsewhere", key=world.acme.user)
        assert (refused.status, refused.code) == (403, "container_forbidden")


async def test_an_upgrade_says_what_changes_before_it_does_it() -> None:
    async with open_world() as world:
        prompt = {"type": "prompts", "name": "tone", "content": {"text": "Be kind."}, "version": "1.0.0"}
        assert (await world.ask("POST", "/v1/resources", prompt, key=world.acme.admin)).status == 201
        config = {"name": "x", "systemPrompt": "resource://prompts/tone"}
        made = await world.ask("POST", "/v1/images", {"container": "shop", "config": config}, key=world.acme.admin)
        path = f"/v1/images/{made.body['image']['imageId']}/upgrade"
        newer = {"content": {"text": "Be very kind."}, "version": "1.1.0"}
        published = await world.ask("PUT", "/v1/resources/resource%3A%2F%2Fprompts%2Ftone", newer, key=world.acme.admin)
        assert published.status in (200, 201), published.raw
        tried = (await world.ask("POST", path, {"dryRun": True}, key=world.acme.admin)).body
        assert (tried["applied"], len(tried["changes"])) == (False, 1)
        done = (await world.ask("POST", path, {}, key=world.acme.admin)).body
        assert done["applied"]
        assert done["image"]["systemPrompt"] == "Be very kind."
        assert not (await world.ask("POST", path, {}, key=world.acme.admin)).body["applied"]


async def test_the_operator_builds_for_another_tenant() -> None:
    async with open_world() as world:
        made = await world.ask("POST", "/v1/images?tenant=acme", {"container": "shop"})
        found = await world.vm.tenancy.store.tenant(world.acme.tenant_id).container(ContainerId("shop")).list_images()
        assert [image.image_id for image in found] == [made.body["image"]["imageId"]]


async def test_a_quota_of_images_holds_here_too() -> None:
    async with open_world() as world:
        limit = {"metric": "images_per_container", "hard": 1}
        assert (await world.ask("PUT", "/v1/quotas?tenant=acme", limit)).status == 200
        await create(world, "one", container="shop")
        refused = await world.ask("POST", "/v1/images", {"container": "shop"}, key=world.acme.admin)
        assert (refused.status, refused.code) == (429, "quota_exceeded")
