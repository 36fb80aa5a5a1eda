"""The build of the console: which packages it installs."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from tests.support.source_files import ROOT

SPEC = spec_from_file_location("console_build", ROOT / "console" / "build.py")
assert SPEC is not None
assert SPEC.loader is not None
build = module_from_spec(SPEC)
SPEC.loader.exec_module(build)


@pytest.mark.parametrize(
    ("installed", "with_checkers", "omits"), [((), False, True), (("axe-core",), False, False), ((), True, False)]
)
def test_a_build_keeps_checkers_that_are_installed_and_installs_them_when_asked_to(
    installed: tuple[str, ...], with_checkers: bool, omits: bool, tmp_path: Path
) -> None:
    for name in (*installed, "vite"):
        (tmp_path / name).mkdir()
    assert bool(build.omitted_packages(tmp_path, with_checkers=with_checkers)) is omits
