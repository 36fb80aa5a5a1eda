"""Session jobs — the files of a session in and out of the sandbox of a call."""

from collections.abc import Mapping

import msgspec

from agentvm.errors.file import FilePathInvalid
from agentvm.errors.tool import WorkspaceFull
from agentvm.model.session_file import file_path, folders_of
from agentvm.model.tier import Job, JobResult
from agentvm.tools.base import CallContext


async def place_files(job: Job, context: CallContext) -> Job:
    """Returns the job with the files of the session in its workspace, and those attached to the message in `/in`.

    Files of the session win over those of the sandbox. Skills are below `/skills` if the program, or a file, speaks of skills:
    others do not read them, so they need not be sent, and a stranger's do not taint them.

    `WorkspaceFull` when they do not fit.
    """
    if context.files is None:
        return job
    if context.inputs is not None:
        job = msgspec.structs.replace(job, inputs=await context.inputs(job.limits.disk_bytes))
    files = await context.files.list()
    bodies = await context.files.read_all(job.limits.disk_bytes)
    executable = job.executable.union(file.path for file in files if file.executable)
    job = msgspec.structs.replace(job, files=_without_clashes({**job.files, **bodies}), executable=executable)
    return await _with_skills(job, context)


async def _with_skills(job: Job, context: CallContext) -> Job:
    texts = (job.code.encode(), *(argument.encode() for argument in job.argv), *job.files.values())
    if context.skill_files is None or not any(b"skills" in text or b"SKILLS" in text for text in texts):
        return job
    skills = await context.skill_files(None)
    if (size := sum(map(len, skills.values()))) > job.limits.disk_bytes:
        raise WorkspaceFull(
            f"The skills have {size:,} bytes, and the sandbox holds {job.limits.disk_bytes:,}. "
            "Give the sandbox a larger limit `fileBytes`, or the image fewer skills"
        )
    return msgspec.structs.replace(job, skills=skills)


async def keep_files(result: JobResult, context: CallContext) -> JobResult:
    """Takes over the files that a job has changed; returns the result with those that were taken.

    Names that no file of a session can have are left out, and counted. `WorkspaceFull` when the session may not have so much.
    """
    if context.files is None:
        return result
    named: dict[str, bytes] = {}
    executable: set[str] = set()
    left_out = result.left_out
    for path, body in result.files.items():
        try:
            name = file_path(path)
        except FilePathInvalid:
            left_out += 1
            continue
        named[name] = body
        if path in result.executable:
            executable.add(name)
    deleted = [path for path in result.deleted if path not in named and await context.files.delete(path)]
    await context.files.write_all(named, executable)
    return msgspec.structs.replace(
        result, files=named, executable=frozenset(executable), deleted=tuple(deleted), left_out=left_out
    )


def _without_clashes(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Leaves out files whose names are folders of others: an upload may cross a call."""
    folders = {folder for path in files for folder in folders_of(path)}
    return {path: body for path, body in files.items() if path not in folders}
