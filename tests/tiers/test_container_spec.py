from dataclasses import replace

import pytest

from agentvm.errors.tool import TierUnavailable
from agentvm.model.tier import Job, JobLimits
from agentvm.tiers.container_network import FORWARDER_PROCESSES_MAX
from agentvm.tiers.container_spec import ContainerSettings, check_job, describe

SETTINGS = ContainerSettings(socket="", server="tests", images={}, exchange="/x", packages=True)


@pytest.mark.parametrize(
    ("job", "settings", "why"),
    [
        (Job(engine="python", functions={"tell": ()}), SETTINGS, "call no tools"),
        (Job(engine="python", network=("a",)), replace(SETTINGS, runtime="runsc"), "gVisor reaches no proxy"),
        (Job(engine="python", network=("a",)), replace(SETTINGS, exchange=""), "the data directory is memory"),
        (Job(engine="python", packages=("numpy",)), replace(SETTINGS, packages=False), "only with tools.packages.index"),
        (Job(engine="javascript", packages=("numpy",)), SETTINGS, "those of Python"),
    ],
)
def test_what_containers_do_not_have_here_is_refused_by_name(job: Job, settings: ContainerSettings, why: str) -> None:
    with pytest.raises(TierUnavailable, match=why):
        check_job(job, settings)
    check_job(replace_job(job), settings)


def replace_job(job: Job) -> Job:
    return Job(engine=job.engine)


def test_the_forwarder_has_processes_of_its_own_and_mounts_are_asked_for() -> None:
    job = Job(engine="python", limits=JobLimits(processes=5))
    mount = {"Type": "bind", "Source": "/s", "Target": "/net", "ReadOnly": True}
    plain = describe(job, "i", (), SETTINGS, 1)["HostConfig"]
    networked = describe(Job(engine="python", limits=job.limits, network=("a",)), "i", (mount,), SETTINGS, 1)["HostConfig"]
    assert isinstance(plain, dict)
    assert isinstance(networked, dict)
    assert networked["PidsLimit"] - plain["PidsLimit"] == FORWARDER_PROCESSES_MAX
    assert (plain["Mounts"], networked["Mounts"], networked["NetworkMode"]) == ([], [mount], "none")
