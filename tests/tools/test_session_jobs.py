"""Files of a session in and out of jobs."""

from dataclasses import replace

import pytest
from tests.support.session_files import MemoryFiles, call_context

from agentvm.errors.tool import WorkspaceFull
from agentvm.model.tier import Job, JobLimits, JobResult
from agentvm.tools.session_jobs import keep_files, place_files


async def test_a_job_has_the_files_of_the_session_and_of_its_sandbox() -> None:
    files = MemoryFiles({"run.sh": b"own", "data/x": b"\0\xff"})
    files.executable.add("run.sh")
    job = await place_files(Job(engine="shell", files={"run.sh": b"template", "lib.py": b"1"}), call_context(files))
    assert job.files == {"run.sh": b"own", "lib.py": b"1", "data/x": b"\0\xff"}
    assert job.executable == {"run.sh"}
    assert (await place_files(Job(engine="shell"), call_context(None))).files == {}


async def test_skills_are_shown_to_programs_that_speak_of_them() -> None:
    asked: list[str | None] = []

    async def skill_files(name: str | None) -> dict[str, bytes]:
        asked.append(name)
        return {"pdf/SKILL.md": b"Do it."}

    context = replace(call_context(MemoryFiles({"run.sh": b"cat /skills/pdf/SKILL.md"})), skill_files=skill_files)
    bare = replace(call_context(MemoryFiles()), skill_files=skill_files)
    assert (await place_files(Job(engine="python", code="print(1)"), bare)).skills == {}
    assert asked == []
    for job in (
        Job(engine="python", code="import os\nos.environ['AVM_SKILLS']"),
        Job(engine="command", argv=("ls", "/skills")),
    ):
        assert (await place_files(job, bare)).skills == {"pdf/SKILL.md": b"Do it."}
    # The script of an earlier call.
    assert (await place_files(Job(engine="shell", code="sh run.sh"), context)).skills == {"pdf/SKILL.md": b"Do it."}
    with pytest.raises(WorkspaceFull, match="The skills have 6 bytes"):
        await place_files(Job(engine="command", argv=("ls", "/skills"), limits=JobLimits(disk_bytes=5)), bare)


async def test_files_that_do_not_fit_are_refused_before_the_job_runs() -> None:
    job = Job(engine="shell", limits=JobLimits(disk_bytes=10))
    with pytest.raises(WorkspaceFull):
        await place_files(job, call_context(MemoryFiles({"a": bytes(11)})))


async def test_a_name_that_is_a_folder_of_another_is_left_out() -> None:
    job = await place_files(Job(engine="shell"), call_context(MemoryFiles({"a": b"1", "a/b": b"2"})))
    assert job.files == {"a/b": b"2"}


async def test_changes_are_taken_over_and_odd_names_counted() -> None:
    files = MemoryFiles({"old": b"1", "same": b"2"})
    result = JobResult(
        files={"new.sh": b"\0", "line\nbreak": b"x", "e\u0301": b"y"},
        deleted=("old", "template"),
        executable=frozenset({"new.sh"}),
        left_out=1,
    )
    kept = await keep_files(result, call_context(files))
    assert files.bodies == {"same": b"2", "new.sh": b"\0", "\u00e9": b"y"}
    assert files.executable == {"new.sh"}
    assert (set(kept.files), kept.deleted, kept.left_out) == ({"new.sh", "\u00e9"}, ("old",), 2)
    assert await keep_files(result, call_context(None)) == result
