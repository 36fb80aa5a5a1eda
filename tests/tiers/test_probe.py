from agentvm.tiers.frames import HostReport
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.probe import describe, offer_of, probe

FULL = HostReport(mode="namespaces", landlock=7, seccomp=True, proc=True, own_uid=True, cgroup="v2", engines={"python": ""})
BARE = HostReport(mode="landlock", why="they are switched off", landlock=4, seccomp=True, engines={"python": ""})
NOTHING = HostReport(mode="none", why="the host refuses new user and mount namespaces", seccomp=True)


def test_an_offer_has_the_walls_that_were_tried() -> None:
    assert {"user", "pid", "net", "ipc", "uts", "mount", "landlock", "seccomp", "rlimits", "uid", "cgroup"} < offer_of(
        FULL
    ).walls
    assert offer_of(BARE).walls == {"process", "rlimits", "seccomp", "landlock"}
    assert offer_of(FULL).egress
    assert not offer_of(BARE).egress


def test_a_host_without_walls_offers_nothing_but_a_remedy() -> None:
    offer = offer_of(NOTHING)
    assert offer.engines == offer.walls == frozenset()
    assert "the host refuses new user and mount namespaces" in offer.missing
    assert "kernel.apparmor_restrict_unprivileged_userns" in offer.missing


def test_every_missing_wall_is_told_with_its_remedy() -> None:
    assert all(line.stands and line.remedy is None for line in describe(FULL))
    assert [line.remedy is not None for line in describe(BARE) if line.name == "cgroup"] == [True]
    for report in (BARE, NOTHING):
        fallen = [line for line in describe(report) if not line.stands]
        assert fallen
        assert all(line.remedy for line in fallen)
    assert any("python" in line.text for line in describe(FULL))
    assert [line.stands for line in describe(HostReport(mode="none")) if line.name == "seccomp"] == [False]


async def test_the_probe_asks_a_launcher_of_this_machine() -> None:
    report = await probe(LauncherSettings(namespaces=False))
    assert report.mode in ("landlock", "none")
    assert report.why == "they are switched off"
