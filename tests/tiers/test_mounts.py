from pathlib import Path

import msgspec
import pytest

from agentvm.model.tier import Job
from agentvm.tiers import mounts
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import ProcessTier, open_process_tier


async def test_the_root_holds_programs_and_the_workspace_and_nothing_else(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="python", code="import os\nsorted(os.listdir('/'))"))
    assert isinstance(result.value, list)
    top = {folder.lstrip("/").split("/")[0] for folder in (*mounts.PROGRAMS, *mounts.python_folders())}
    assert set(result.value) <= top | {"dev", "etc", "in", "packages", "proc", "skills", "tmp", "workspace"}
    assert {"usr", "workspace", "tmp"} <= set(result.value)


async def test_users_of_the_host_are_not_told(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="shell", code="cat /etc/passwd; ls /etc; cat /proc/sys/kernel/hostname; hostname"))
    assert result.stdout.startswith(b"sandbox:x:1000:1000::/workspace:/bin/sh\n")
    assert b"shadow" not in result.stdout
    assert result.stdout.endswith(b"sandbox\n")


async def test_every_mount_but_the_job_s_own_is_read_only(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="python", code="open('/proc/self/mounts').read().splitlines()"))
    assert isinstance(result.value, list)
    writable = {line.split()[1] for line in result.value if "rw" in line.split()[3].split(",")}
    assert writable <= {"/workspace", "/tmp", "/proc", *mounts.DEVICES}


async def test_another_root_replaces_the_host_s_programs(tier: ProcessTier, tmp_path: Path) -> None:
    for folder in ("bin", "etc", "usr"):
        (tmp_path / folder).mkdir()
    (tmp_path / "etc/motd").write_text("another root")
    async with open_process_tier(LauncherSettings(rootfs=str(tmp_path))) as other:
        offer = await other.offer()
        assert "shell" not in offer.engines
        result = await other.run(Job(engine="python", code="import os\n[open('/etc/motd').read(), os.listdir('/usr')]"))
        assert result.value == ["another root", []]


async def test_another_root_needs_mounts() -> None:
    async with open_process_tier(LauncherSettings(rootfs="/", namespaces=False)) as tier:
        assert "tools.rootfs needs private mounts" in (await tier.offer()).missing


def test_what_is_readable_without_a_root_of_its_own_is_little() -> None:
    assert not {"/", "/etc", "/proc", "/dev", "/var", "/tmp"} & set(mounts.readable_on_host())
    assert set(mounts.python_folders()) <= set(mounts.readable_on_host())


def test_records_are_data() -> None:
    with pytest.raises(AttributeError):
        Job(engine="python").engine = "shell"  # type: ignore[misc]
    assert msgspec.json.encode(Job(engine="python")) == b'{"engine":"python"}'
