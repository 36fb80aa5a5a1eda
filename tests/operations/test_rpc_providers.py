from tests.support.rpc_client import open_rpc_client


async def test_providers_are_shown_without_keys_and_are_changed_elsewhere() -> None:
    async with open_rpc_client() as (_, client):
        (provider,) = (await client.ask("llm.list"))["records"]
        assert (provider["name"], provider["apiKey"], provider["isDefault"]) == ("scripted", "***", True)
        assert (await client.ask("llm.get", id=provider["id"]))["record"] == provider
        assert (await client.ask("llm.default"))["record"] == provider
        for method in ("llm.create", "llm.update", "llm.delete"):
            code, text = await client.refused(method, name="x", apiKey="sk-secret")
            assert code == -32601
            assert "sk-secret" not in text
