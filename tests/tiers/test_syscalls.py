from agentvm.tiers.syscalls import NEWEST, numbers

DANGEROUS = (
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "ptrace", "process_vm_readv", "bpf", "perf_event_open",
    "userfaultfd", "io_uring_setup", "keyctl", "add_key", "init_module", "kexec_load", "reboot", "swapon", "open_by_handle_at",
    "clock_settime", "sethostname", "memfd_create", "shmget", "setuid", "setresuid", "capset", "clone3", "fsopen",
    "move_mount", "open_tree", "mount_setattr", "pidfd_getfd", "kcmp", "fanotify_init", "acct", "quotactl", "iopl", "ioperm",
)  # fmt: skip


def test_nothing_dangerous_is_in_the_list() -> None:
    for machine in ("x86_64", "aarch64"):
        assert set(DANGEROUS).isdisjoint(numbers(machine))


def test_a_number_stands_for_one_call_only() -> None:
    for machine, newest in NEWEST.items():
        table = numbers(machine)
        assert len(set(table.values())) == len(table) > 150
        assert all(0 <= number <= newest + 10 for number in table.values())


def test_well_known_numbers() -> None:
    assert {name: numbers("x86_64")[name] for name in ("read", "execve", "openat")} == {"read": 0, "execve": 59, "openat": 257}
    assert {name: numbers("aarch64")[name] for name in ("read", "execve", "openat")} == {
        "read": 63,
        "execve": 221,
        "openat": 56,
    }


def test_an_unknown_architecture_has_none() -> None:
    assert numbers("vax") == {}
