import json
from pathlib import Path

from tests.cli.desk import open_desk

SCHEMA = {"type": "object", "properties": {"teas": {"type": "array"}}, "required": ["teas"]}


async def test_an_agent_is_asked_once_and_keeps_nothing_unless_it_is_told_to() -> None:
    async with open_desk() as desk:
        assert await desk.ok("run", "default", "喜欢茶") == "喜欢茶\n"
        assert await desk.ok("run", "default", "-", given="from a pipe") == "from a pipe\n"
        assert [one.get("lastMessageAt") for one in await desk.record("session", "list", "--all")] == [None], "of the image"
        kept = await desk.avm("run", "default", "Hello", "--keep")
        session_id = kept.err.split()[-1]
        assert "Hello" in await desk.ok("session", "messages", session_id)


async def test_an_answer_of_a_schema_is_json_or_a_failure(tmp_path: Path) -> None:
    schema = tmp_path / "my teas.json"
    schema.write_text(json.dumps(SCHEMA))
    async with open_desk() as desk:
        answer = await desk.ok("run", "default", '{"teas": ["green"]}', "--schema", str(schema))
        assert json.loads(answer) == {"teas": ["green"]}
        failed = await desk.avm("run", "default", "no JSON", "--schema", str(schema))
        assert (failed.code, "output_misfit" in failed.err) == (1, True)
        schema.write_text("[")
        refused = await desk.avm("run", "default", "x", "--schema", str(schema))
        assert (refused.code, "not a JSON Schema" in refused.err) == (2, True)
