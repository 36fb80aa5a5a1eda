import os
from pathlib import Path

from tests.tiers.processes import descendants, until

from agentvm.model.tier import Job
from agentvm.tiers import kernel
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import open_process_tier
from agentvm.tiers.scratch import PREFIX, is_littered, make_scratch, remove, sweep


def test_a_folder_without_its_owner_is_swept_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}dead/job").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "other")

    def attempt() -> None:
        # In a child, which holds the lock until it ends.
        alive = make_scratch(str(tmp_path))
        if not is_littered(str(tmp_path)) or not kernel.can(lambda: sweep(str(tmp_path))):
            raise OSError("not swept")
        if os.path.exists(tmp_path / f"{PREFIX}dead") or is_littered(str(tmp_path)):
            raise OSError("something is left")
        if not os.path.exists(alive):
            raise OSError("the folder of a living launcher was removed")

    assert kernel.can(attempt)
    assert (tmp_path / "other").is_dir()
    sweep(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(PREFIX)] == [f"{PREFIX}link"]


def test_removing_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    remove(str(tmp_path / "nowhere"))


def test_a_folder_deeper_than_any_path_and_recursion_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    (tmp_path / "kept").write_text("x")
    for side in ("a", "b"):
        folder = os.open(top, os.O_RDONLY)
        for _ in range(2_000):
            os.mkdir(side, dir_fd=folder)
            inner = os.open(side, os.O_RDONLY, dir_fd=folder)
            os.symlink(tmp_path / "kept", "link", dir_fd=inner)
            os.close(folder)
            folder = inner
        os.mkfifo("pipe", dir_fd=folder)
        os.close(folder)
    (top / "closed").mkdir()
    (top / "closed/file").write_text("x")
    (top / "closed").chmod(0)
    assert remove(str(top))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_only_so_many_entries_are_removed_at_a_time(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / "top" / folder).mkdir(parents=True)
        for number in range(30):
            (tmp_path / "top" / folder / str(number)).touch()
    assert not remove(str(tmp_path / "top"), 10)
    assert 1 < sum(len(files) for _, _, files in os.walk(tmp_path / "top")) <= 50
    assert remove(str(tmp_path / "top"), 100)
    assert not (tmp_path / "top").exists()


async def test_what_a_job_leaves_keeps_neither_the_next_job_nor_the_launcher() -> None:
    async with open_process_tier(LauncherSettings(namespaces=False)) as tier:
        offer = await tier.offer()
        assert not offer.missing
        assert tier.report is not None
        deep = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')"
        wide = "for number in range(3000):\n    open(f'f{number}', 'w').close()"
        for code in (deep, wide):
            result = await tier.run(Job(engine="python", code=code))
            assert result.exit_code == 0, result.stderr
        launcher = tier.launcher_process_id
        assert (await tier.run(Job(engine="python", code="7"))).value == 7
        assert tier.launcher_process_id == launcher
        scratch = tier.report.scratch
        await until(lambda: os.listdir(scratch) == [] and descendants(launcher) == [])


async def test_a_server_that_stops_leaves_no_folder() -> None:
    before = set(os.listdir("/tmp"))
    async with open_process_tier(LauncherSettings(namespaces=False)) as tier:
        await tier.offer()
        made = {name for name in set(os.listdir("/tmp")) - before if name.startswith(PREFIX)}
    # Another test may be running beside this one, with a folder of its own.
    assert made - set(os.listdir("/tmp"))
