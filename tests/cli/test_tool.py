import json

from tests.cli.desk import open_desk


async def test_a_tool_is_listed_and_tried() -> None:
    async with open_desk() as desk:
        listed = await desk.ok("tool", "list")
        assert "resource://tools/system/calculator" in listed
        assert "current_time" not in await desk.ok("tool", "list", "arithmetic")
        tried = await desk.avm("tool", "try", "calculator", "--input", '{"expression": "6 * 7"}', "--why")
        assert (tried.code, tried.out) == (0, "42\n")
        assert tried.err == "policy     default rule 3: any call\ninline     chosen\n"
        record = json.loads((await desk.avm("tool", "try", "calculator", "--input", '{"expression": "1"}', "--json")).out)
        assert record["output"] == {"type": "json", "value": 1}


async def test_a_tool_that_fails_ends_with_1_and_a_wrong_input_with_2() -> None:
    async with open_desk() as desk:
        failed = await desk.avm("tool", "try", "calculator", "--input", '{"expression": "1/0"}')
        assert (failed.code, failed.out) == (1, "")
        assert "cannot compute" in failed.err
        for given in ("{", "[1]"):
            assert (await desk.avm("tool", "try", "calculator", "--input", given)).code == 2
        assert (await desk.avm("tool", "try", "nothing")).code == 5
