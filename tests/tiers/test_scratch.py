import os
from pathlib import Path

from agentvm.tiers import kernel
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import open_process_tier
from agentvm.tiers.scratch import PREFIX, make_scratch, remove, sweep


def test_a_folder_without_its_owner_is_swept_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}dead/job").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "other")

    def attempt() -> None:
        # In a child, which holds the lock until it ends.
        alive = make_scratch(str(tmp_path))
        if os.path.exists(tmp_path / f"{PREFIX}dead") or not kernel.can(lambda: sweep(str(tmp_path))):
            raise OSError("not swept")
        if not os.path.exists(alive):
            raise OSError("the folder of a living launcher was removed")

    assert kernel.can(attempt)
    assert (tmp_path / "other").is_dir()
    sweep(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(PREFIX)] == [f"{PREFIX}link"]


def test_removing_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    remove(str(tmp_path / "nowhere"))


async def test_a_server_that_stops_leaves_no_folder() -> None:
    before = set(os.listdir("/tmp"))
    async with open_process_tier(LauncherSettings(namespaces=False)) as tier:
        await tier.offer()
        made = {name for name in set(os.listdir("/tmp")) - before if name.startswith(PREFIX)}
    # Another test may be running beside this one, with a folder of its own.
    assert made - set(os.listdir("/tmp"))
