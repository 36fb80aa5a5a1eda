"""What foreign code is given, and what comes back."""

import shutil

import pytest

from agentvm.errors import ToolFailed
from agentvm.model.long_json import unfolded
from agentvm.model.tier import Job, JobLimits
from agentvm.tiers.process import ProcessTier, open_process_tier
from agentvm.tiers.roles import find_program


async def test_a_function_gets_its_input_and_its_value_comes_back(tier: ProcessTier) -> None:
    code = "def run(rows):\n    return {'sum': sum(row['qty'] for row in rows), 'text': 'ü\\n'}"
    result = await tier.run(Job(engine="python", code=code, input={"rows": [{"qty": 2}, {"qty": 3}]}))
    assert result.value == {"sum": 5, "text": "ü\n"}
    assert result.succeeded
    assert result.stdout == result.stderr == b""


async def test_a_coroutine_is_awaited(tier: ProcessTier) -> None:
    code = "import asyncio\nasync def run(n):\n    await asyncio.sleep(0)\n    return n + 1"
    assert (await tier.run(Job(engine="python", code=code, input={"n": 1}))).value == 2


async def test_a_script_prints_and_its_last_expression_is_the_value(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="python", code="x = 20\nprint('hello')\nx * 2 + 2"))
    assert (result.value, result.stdout) == (42, b"hello\n")


async def test_a_function_run_of_a_script_is_its_own_business(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="python", code="def run(n):\n    return n\nrun(3) + 1", script=True))
    assert (result.value, result.exit_code) == (4, 0)


async def test_a_last_expression_that_is_no_json_has_no_value(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="python", code="object()"))
    assert (result.value, result.exit_code) == (None, 0)


async def test_a_function_whose_value_is_no_json_fails(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="python", code="def run():\n    return {1, 2}"))
    assert result.exit_code == 1
    assert b"not JSON serializable" in result.stderr


async def test_empty_code_runs_the_main_file_which_imports_its_neighbours(tier: ProcessTier) -> None:
    files = {"main.py": b"from lib.numbers_here import ANSWER\nANSWER", "lib/numbers_here.py": b"ANSWER = 7"}
    assert (await tier.run(Job(engine="python", files=files))).value == 7


async def test_an_error_shows_the_lines_of_the_code_and_none_of_ours(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="python", code="def run():\n    return 1 / 0"))
    assert result.exit_code == 1
    assert b'File "main.py", line 2, in run\n    return 1 / 0' in result.stderr
    assert b"roles.py" not in result.stderr


@pytest.mark.parametrize(("ending", "status"), [("3", 3), ("", 0), ("None", 0), ("'bad thing'", 1)])
async def test_a_script_chooses_its_exit_code(tier: ProcessTier, ending: str, status: int) -> None:
    result = await tier.run(Job(engine="python", code=f"import sys\nsys.exit({ending})"))
    assert result.exit_code == status
    assert (b"bad thing" in result.stderr) == ("bad" in ending)


async def test_threads_and_exit_functions_end_as_in_an_interpreter_of_its_own(tier: ProcessTier) -> None:
    code = """
import atexit, threading, time
atexit.register(lambda: print("bye"))
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
print("main")
"""
    assert (await tier.run(Job(engine="python", code=code))).stdout.split() == [b"main", b"thread", b"bye"]


async def test_two_runs_have_other_random_numbers(tier: ProcessTier) -> None:
    job = Job(engine="python", code="import random\nrandom.random()")
    assert (await tier.run(job)).value != (await tier.run(job)).value


async def test_a_script_gets_its_arguments_as_variables_that_no_shell_has_read(tier: ProcessTier) -> None:
    code = 'printf "%s|%s|%s\\n" "$ARG_NAME" "$ARG_MY_COUNT" "$ARG_LIST"; cat'
    result = await tier.run(Job(engine="shell", code=code, input={"name": "$(id)`id`", "my-count": 3, "list": [1]}))
    first, rest = result.stdout.split(b"\n", 1)
    assert first == b"$(id)`id`|3|[1]"
    assert rest == b'{"name":"$(id)`id`","my-count":3,"list":[1]}'


async def test_an_input_that_is_too_long_for_a_variable_is_on_stdin(tier: ProcessTier) -> None:
    size = 3_000_000
    code = 'printf "%s %s " "${#ARG_A}" "$ARG_B"; wc -c'
    result = await tier.run(Job(engine="shell", code=code, input={"a": "x" * size, "b": 1}))
    assert result.stdout.split() == [b"0", b"1", str(size + len('{"a":"","b":1}')).encode()]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
async def test_a_module_takes_an_input_of_any_length(tier: ProcessTier) -> None:
    code = "export default function run(given) { return given.a.length }"
    assert (await tier.run(Job(engine="javascript", code=code, input={"a": "x" * 3_000_000}))).value == 3_000_000


async def test_stdin_is_what_the_job_says(tier: ProcessTier) -> None:
    data = bytes(range(256)) * 1000
    result = await tier.run(Job(engine="shell", code="cat", stdin=data, input={"a": 1}))
    assert result.stdout == data


async def test_a_program_that_does_not_read_its_stdin_ends_all_the_same(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="command", argv=("true",), stdin=b"x" * 2_000_000))
    assert result.exit_code == 0


async def test_a_command_is_an_argv_that_nothing_splits(tier: ProcessTier) -> None:
    result = await tier.run(Job(engine="command", argv=("printf", "%s\n", "a b; id", "$HOME")))
    assert result.stdout == b"a b; id\n$HOME\n"


async def test_a_program_that_is_not_there_and_one_that_cannot_run_are_told_apart(tier: ProcessTier) -> None:
    missing = await tier.run(Job(engine="command", argv=("no-such-program",)))
    assert (missing.exit_code, missing.stderr) == (127, b"no-such-program: not found\n")
    files = {"tool": b"\x7fELF nonsense"}
    broken = await tier.run(Job(engine="command", argv=("./tool",), files=files, executable=frozenset(files)))
    assert broken.exit_code == 126


async def test_the_environment_is_what_the_job_says_and_a_few_variables(tier: ProcessTier) -> None:
    code = "import os\ndict(os.environ)"
    result = await tier.run(Job(engine="python", code=code, env={"GREETING": "hi"}, key="turn/1"))
    assert result.value == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/workspace",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "GREETING": "hi",
        "AVM_CALL_KEY": "turn/1",
    }


async def test_nothing_of_the_server_can_be_imported(tier: ProcessTier) -> None:
    code = """
import sys
found = [name for name in sys.modules if name.split(".")[0] in ("agentvm", "msgspec", "anyio")]
for name in ("agentvm", "msgspec", "anyio"):
    try:
        __import__(name)
        found.append(name)
    except ImportError:
        pass
found
"""
    assert (await tier.run(Job(engine="python", code=code))).value == []


async def test_javascript_gets_its_input_and_its_value_comes_back(tier: ProcessTier) -> None:
    if "javascript" not in (await tier.offer()).engines:
        pytest.skip("node is not installed where jails see it")
    code = "export default async function run({ a }) { console.log('hi'); return { double: a * 2, text: 'ü'.repeat(100000) }; }"
    limits = JobLimits(memory_bytes=2**30)
    result = await tier.run(Job(engine="javascript", code=code, input={"a": 21}, limits=limits))
    assert result.stdout == b"hi\n", result.stderr
    assert unfolded(result.value) == {"double": 42, "text": "ü" * 100_000}


async def test_code_calls_functions_of_the_server_and_hears_why_one_failed(tier: ProcessTier) -> None:
    code = """
first = tools.add(a=1, b=2)
try:
    tools.fail()
except ToolError as error:
    second = str(error)
[first, second, tools["add"](first, b=10)]
"""

    async def calls(name: str, args: dict[str, object]) -> object:
        if name == "fail":
            raise ToolFailed("it rains")
        return int(str(args["a"])) + int(str(args["b"]))

    result = await tier.run(Job(engine="python", code=code, functions={"add": ("a", "b"), "fail": ()}), calls)
    assert result.value == [3, "it rains", 13], result.stderr


async def test_calls_are_counted_and_only_named_functions_exist(tier: ProcessTier) -> None:
    asked = []

    async def calls(name: str, args: dict[str, object]) -> object:
        asked.append(name)
        return None

    code = "def run():\n    for _ in range(5):\n        tools.ping()"
    limited = Job(engine="python", code=code, functions={"ping": ()}, limits=JobLimits(calls=3))
    result = await tier.run(limited, calls)
    assert (result.exit_code, asked) == (1, ["ping"] * 3)
    assert b"more than 3 calls" in result.stderr
    result = await tier.run(Job(engine="python", code="tools"), calls)
    assert b"NameError" in result.stderr


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("tools.pong()", b"AttributeError: there is no tool 'pong'; there are: ping"),
        ("tools.ping(1, 2)", b"TypeError: ping(n) was called with 2 positional arguments"),
        ("tools.ping(n={1, 2})", b"TypeError: Object of type set is not JSON serializable"),
        ("tools.ping()", b"\nToolError: no"),
    ],
)
async def test_a_call_that_cannot_be_made_is_an_error_of_the_program(tier: ProcessTier, code: str, error: bytes) -> None:
    async def calls(name: str, args: dict[str, object]) -> object:
        raise ToolFailed("no")

    result = await tier.run(Job(engine="python", code=code, functions={"ping": ("n",)}), calls)
    assert error in result.stderr


async def test_a_program_that_is_run_again_does_the_same() -> None:
    """Sets have the same order in each launcher, and a program that calls tools draws the same numbers."""
    code = "import random\n[list({'a', 'b', 'c', 'd', 'e'}), random.random()]"
    values = []
    for key in ("k1", "k1", "k2"):
        async with open_process_tier() as tier:
            values.append((await tier.run(Job(engine="python", code=code, functions={"ping": ()}, key=key))).value)
    assert values[0] == values[1]
    assert values[0] != values[2]


def test_a_program_is_found_as_a_shell_would() -> None:
    assert find_program("sh", "/nowhere:/bin") == "/bin/sh"
    assert find_program("/bin/sh", "") == "/bin/sh"
    assert find_program("./sh", "/bin") is None
    assert find_program("bin", "/") is None
    assert shutil.which("sh") is not None
