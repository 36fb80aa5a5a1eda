import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.desk import Desk, avm, open_desk
from tests.cli.fake_server import answering

from agentvm import create_agentx, remote_runtime
from agentvm.model.secret import Secret

HEADER = "day,model,input_tokens,output_tokens"


async def talk(desk: Desk, text: str, key: str | None = None) -> None:
    runtime = remote_runtime(desk.server.ws_url, key=Secret(key or desk.operator))
    async with create_agentx(runtime) as agentx:
        image = await agentx.images.create(container_id="default" if key is None else (await agentx.containers.list())[0])
        agent = await agentx.images.run(image.image_id)
        assert [event.data["outcome"] async for event in agent.stream(text) if event.type == "turn_response"] == ["completed"]


async def bill(desk: Desk, **change: int) -> str:
    """The provider's export of what the server has used, with changes."""
    (row,) = await desk.record("usage", "--by", "day,model")
    changed = {**row, **{name: row[name] + more for name, more in change.items()}}
    return f"{HEADER}\n{row['day']},{row['model']},{changed['inputTokens']},{changed['outputTokens']}\n"


async def test_usage_is_summed_by_what_one_asks_for() -> None:
    async with open_desk() as desk:
        assert "No usage found." in (await desk.avm("usage", "--by", "model")).err
        await desk.ok("user", "create", "爱丽丝")
        key = (await desk.ok("key", "create", "k", "--user", "爱丽丝")).strip()
        await talk(desk, "hello there", key)
        await talk(desk, "hello")
        (total,) = await desk.record("usage")
        assert (total["calls"], total["margin"]) == (2, total["price"] - total["cost"])
        lines = (await desk.ok("usage", "--by", "user,day")).splitlines()
        assert lines[0].split()[:2] == ["USER", "DAY"]
        assert any(line.startswith("爱丽丝") for line in lines[1:])
        own = await desk.avm("usage", "--by", "user", key=key)
        assert (own.code, "MARGIN" in own.out, "usr_" in own.out) == (0, False, True)
        text = await desk.ok("usage", "--by", "model", "--csv")
        assert text.startswith("model,calls,inputTokens,")
        assert len(text.splitlines()) == 2
        assert await desk.record("usage", "--by", "day", "--since", "1h", "--until", "2030-01-01")


@pytest.mark.parametrize("arguments", [("--by", "colour"), ("--since", "then"), ("--csv", "--json"), ("reconcile",)])
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert avm("usage", *arguments, url="http://127.0.0.1:1").code == 2


def test_calls_that_are_estimated_or_unpriced_are_said_to_be() -> None:
    row = {"calls": 9, "estimatedCalls": 2, "unpricedCalls": 1, "inputTokens": 1, "outputTokens": 1, "cost": 0, "price": 0}
    with answering(lambda asked: (200, {"items": [row]})) as (url, _):
        assert avm("usage", url=url).err == "2 calls estimated.\n1 call without a known price.\n"
        assert avm("usage", "--json", url=url).err == ""


async def test_a_bill_that_agrees_is_exit_code_0(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await desk.ok("tenant", "create", "acme")
        await talk(desk, "hello")
        export = tmp_path / "bill.csv"
        export.write_text(await bill(desk))
        said = await desk.ok("usage", "reconcile", str(export))
        assert "equal" in said
        assert said.endswith("Every difference is explained.\n")
        report = await desk.record("usage", "reconcile", str(export))
        assert (report["explained"], [group["verdict"] for group in report["groups"]]) == (True, ["equal"])


async def test_a_bill_that_says_more_is_explained_as_far_as_can_be_and_exit_code_1(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await talk(desk, "hello")
        export = tmp_path / "bill.csv"
        export.write_text(await bill(desk, inputTokens=1_000_000))
        done = await desk.avm("usage", "reconcile", str(export))
        assert done.code == 1
        assert "provider has more: NOT EXPLAINED" in done.out
        assert "calls made outside AgentVM" in done.out
        assert done.out.endswith("1 of 1 group not explained.\n")


async def test_the_operators_bill_is_for_all_tenants_and_a_tenant_has_its_own(tmp_path: Path) -> None:
    async with open_desk() as desk:
        await desk.ok("tenant", "create", "acme")
        await desk.ok("user", "create", "alice", "--tenant", "acme")
        key = (await desk.ok("key", "create", "k", "--user", "alice", "--tenant", "acme")).strip()
        admin = (await desk.ok("key", "create", "a", "--permission", "tenants:admin", "--tenant", "acme")).strip()
        await talk(desk, "hello", key)
        (row,) = await desk.record("usage", "--by", "day,model", "--tenant", "acme")
        export = tmp_path / "bill.json"
        export.write_text(json.dumps([row]))
        await desk.ok("usage", "reconcile", str(export))
        await desk.ok("usage", "reconcile", str(export), key=admin)
        await desk.ok("usage", "reconcile", str(export), "--tenant", "acme")
        assert (await desk.avm("usage", "reconcile", str(export), "--tenant", "default")).code == 1
        left_out = await desk.avm("usage", "reconcile", str(export), "--driver", "anthropic")
        assert (left_out.code, "Not on this bill: 1 call of scripted" in left_out.out) == (1, True)


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "empty"), (b"\xff\xfe1\x00", "UTF-8"), (b"a,b\n1,2\n", "Accepted names: day")]
)
def test_a_file_that_is_no_export_is_explained(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "bill").write_bytes(content)
    done = avm("usage", "reconcile", str(tmp_path / "bill"), url="http://127.0.0.1:1")
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_a_ledger_of_another_form_is_not_guessed_at(tmp_path: Path) -> None:
    today = datetime.now(UTC).date().isoformat()
    (tmp_path / "bill.csv").write_text(f"{HEADER}\n{today},m,1,1\n")
    with answering(lambda asked: (200, {"items": [{"key": 5}]})) as (url, _):
        done = avm("usage", "reconcile", str(tmp_path / "bill.csv"), url=url)
    assert (done.code, "unknown format" in done.err) == (1, True)
