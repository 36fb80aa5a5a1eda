import anyio
import pytest
from tests.server.http.fixtures import World, open_world

from agentvm.model.account import Quota

pytestmark = pytest.mark.anyio
PATH = "/v1/sandboxes/run"


async def entries(world: World) -> list[tuple[str, str, int]]:
    ledger = world.vm.tenancy.store.accounts(world.acme.tenant_id).ledger
    return [(entry.driver, entry.model, entry.wall_ms) for _, entry in await ledger.list()]


async def test_code_runs_and_its_time_is_in_the_ledger() -> None:
    async with open_world() as world:
        body = {"engine": "python", "code": "def run(a):\n    open('f', 'w').write('x')\n    return a + 1", "input": {"a": 1}}
        reply = await world.ask("POST", PATH, body, key=world.acme.admin)
        assert reply.status == 200, reply.raw
        assert (reply.body["exitCode"], reply.body["value"], reply.body["files"]) == (0, 2, {"f": "x"})
        placed = reply.body["placed"]
        assert (placed["tier"], ["process", "chosen"] in placed["why"]) == ("process", True)
        assert [tier for tier, _ in placed["why"]] == ["isolate", "process"]
        assert set(reply.body["usage"]) <= {"cpuMs", "maxRssBytes"}
        assert await entries(world) == [("tier", "process", reply.body["durationMs"])]
        assert ("sandbox.run", "", "ok") in await world.audit(world.acme.tenant_id)


async def test_files_come_and_go_as_text_or_base64() -> None:
    async with open_world() as world:
        body = {"argv": ["sh", "-c", "cp in.bin out.bin; cat t.txt"], "files": {"in.bin": {"data": "AP8="}, "t.txt": "ü"}}
        reply = await world.ask("POST", PATH, body, key=world.acme.admin)
        assert (reply.body["stdout"], reply.body["files"]) == ("ü", {"out.bin": {"data": "AP8="}})


async def test_a_failure_of_the_code_is_a_result_and_not_an_error() -> None:
    async with open_world() as world:
        reply = await world.ask("POST", PATH, {"engine": "shell", "code": "echo no >&2; exit 7"}, key=world.acme.admin)
        assert (reply.status, reply.body["exitCode"], reply.body["stderr"]) == (200, 7, "no\n")
        slow = {"engine": "shell", "code": "sleep 100", "limits": {"timeoutMs": 200}}
        reply = await world.ask("POST", PATH, slow, key=world.acme.admin)
        assert (reply.body["timedOut"], reply.body["signal"], "exitCode" in reply.body) == (True, "SIGKILL", False)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"engine": "python"}, "invalid_input"),
        ({"code": "1"}, "invalid_input"),
        ({"engine": "command", "code": "1"}, "invalid_input"),
        ({"engine": "python", "argv": ["ls"]}, "invalid_input"),
        ({"engine": "cobol", "code": "1"}, "invalid_input"),
        ({"engine": "shell", "code": "true", "script": True}, "invalid_input"),
        ({"argv": ["no-such-program"]}, "tier_unavailable"),
        ({"engine": "python", "code": "1", "files": {"../x": "1"}}, "invalid_input"),
        ({"engine": "python", "code": "1", "files": {"x" * 256: "1"}}, "invalid_input"),
        ({"engine": "python", "code": "1", "files": {"a": "1", "a/b": "1"}}, "invalid_input"),
        ({"engine": "python", "code": "1", "skills": {"a": "1", "a/b": "1"}}, "invalid_input"),
        ({"engine": "python", "code": "1", "inputs": {"ü" * 128: "1"}}, "invalid_input"),
        ({"engine": "python", "code": "1", "files": {"a": "1"}, "executable": ["b"]}, "invalid_input"),
        ({"argv": ["echo", "a\0b"]}, "invalid_input"),
        ({"engine": "python", "code": "1", "files": {"x": "1" * 2000}, "limits": {"fileBytes": 1000}}, "workspace_full"),
        ({"engine": "python", "code": "1", "sandbox": "resource://sandboxes/none"}, "resource_not_found"),
    ],
)
async def test_what_cannot_be_run_is_refused_with_its_reason(body: dict[str, object], code: str) -> None:
    async with open_world() as world:
        reply = await world.ask("POST", PATH, body, key=world.acme.admin)
        assert reply.code == code
        assert reply.status < 500 or code == "tier_unavailable"


async def test_a_sandbox_of_the_centre_gives_its_files_variables_and_limits() -> None:
    async with open_world() as world:
        content = {
            "runtime": "python",
            "limits": {"timeoutMs": 20_000, "outputBytes": 10},
            "env": {"NAME": "acme"},
            "files": {"main.py": "import os\nprint('x' * 100)", "data.bin": {"data": "/w=="}},
        }
        draft = {"type": "sandboxes", "name": "box", "version": "1.0.0", "content": content}
        published = await world.ask("POST", "/v1/resources", draft, key=world.acme.admin)
        assert published.status == 201, published.raw
        uri = "resource://sandboxes/box"
        reply = await world.ask("POST", PATH, {"sandbox": uri, "limits": {"outputBytes": 1000}}, key=world.acme.admin)
        assert (reply.body["truncated"], reply.body["stdout"]) == (True, "x" * 10)
        code = "import os\n[os.environ['NAME'], list(open('data.bin', 'rb').read())]"
        reply = await world.ask("POST", PATH, {"sandbox": uri, "code": code}, key=world.acme.admin)
        assert reply.body["value"] == ["acme", [255]], reply.raw


async def test_seconds_are_held_before_and_settled_after() -> None:
    async with open_world() as world:
        quota = Quota(metric="sandbox_seconds_per_day", hard=2)
        await world.vm.tenancy.store.accounts(world.acme.tenant_id).quotas.put(quota, world.vm.clock())
        await world.vm.tenancy.quotas.reread(world.acme.tenant_id)
        # A deadline of a minute is cut to what is left.
        slow = {"engine": "shell", "code": "sleep 100"}
        with anyio.fail_after(60):
            reply = await world.ask("POST", PATH, slow, key=world.acme.admin)
        assert (reply.body["timedOut"], reply.body["durationMs"] >= 1_900) == (True, True)
        refused = await world.ask("POST", PATH, {"engine": "python", "code": "1"}, key=world.acme.admin)
        assert (refused.status, refused.code) == (429, "quota_exceeded")
        # A book that is read anew sees the same.
        world.vm.tenancy.quotas._books.clear()
        book = await world.vm.tenancy.quotas.book(world.acme.tenant_id)
        used = [counter.used for counter in book.applying(None, ("sandbox_seconds_per_day",))]
        total = sum(wall_ms for *_, wall_ms in await entries(world))
        assert used == [total // 1000]


async def test_tiers_of_a_tenant_narrow_those_of_the_operator_and_never_widen_them() -> None:
    async with open_world() as world:
        body = {"engine": "python", "code": "1"}

        async def change(key: str, **changes: object) -> None:
            dotted = {f"tools.tiers.{name}": value for name, value in changes.items()}
            reply = await world.ask("PUT", "/v1/config", {"changes": dotted}, key=key)
            assert reply.status == 200, reply.raw

        await change(world.acme.admin, allow=["container"])
        reply = await world.ask("POST", PATH, body, key=world.acme.admin)
        assert (reply.code, "not allowed by tools.tiers" in reply.body["error"]["message"]) == ("tier_unavailable", True)
        await change(world.operator, allow=["container"])
        await change(world.acme.admin, allow=["process", "container"])
        reply = await world.ask("POST", PATH, body, key=world.acme.admin)
        assert "not allowed by tools.tiers" in reply.body["error"]["message"]
        await change(world.operator, allow=None)
        assert (await world.ask("POST", PATH, body, key=world.acme.admin)).status == 200
        await change(world.operator, walls=["machine"])
        await change(world.acme.admin, walls=["pid"])
        reply = await world.ask("POST", PATH, body, key=world.acme.admin)
        assert "lacks wall machine" in reply.body["error"]["message"]


async def test_tiers_are_listed_with_their_engines_and_walls() -> None:
    async with open_world() as world:
        reply = await world.ask("GET", "/v1/sandboxes/tiers", key=world.acme.admin)
        assert reply.status == 200, reply.raw
        tiers = {tier["tier"]: tier for tier in reply.body["tiers"]}
        assert list(tiers) == ["isolate", "process"]
        process = tiers["process"]
        assert {"python", "shell", "command"} <= set(process["engines"])
        assert {"process", "rlimits", "seccomp"} <= set(process["walls"])
        assert process["network"] == ("net" in process["walls"])
        assert not any(engine.startswith("binary:") for engine in process["engines"])
        assert "missing" not in process
