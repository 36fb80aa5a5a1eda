import pytest
from tests.cli.desk import avm, open_desk
from tests.cli.fake_server import Asked, answering

from agentvm.version import VERSION


async def test_a_server_that_is_well_says_so() -> None:
    async with open_desk() as desk:
        lines = (await desk.ok("status")).splitlines()
        assert lines[-1].startswith(f"ok: AgentVM {VERSION}, up for ")
        assert {"store", "disk", "loop", "provider:scripted"} <= {line.split()[0] for line in lines}
        assert (await desk.record("status"))["status"] == "ok"


@pytest.mark.parametrize(("grade", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_the_exit_code_is_one_when_something_fails(grade: str, code: int) -> None:
    check = {"name": "disk", "status": grade, "message": "0.0 GiB are free where the data is: make room"}

    def answer(asked: Asked) -> tuple[int, object]:
        return 200, {"status": grade, "version": "9", "uptimeSeconds": 61.5, "checks": [check]}

    with answering(answer) as (url, _):
        for more in ((), ("--json",)):
            done = avm("status", *more, url=url)
            assert done.code == code
            assert "make room" in done.out
