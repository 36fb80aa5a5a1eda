import re

from agentvm.drivers.model_catalog import CATALOG, DEFAULT_MODEL, pull_command


def test_every_model_of_the_catalog_is_pinned_part_by_part() -> None:
    for model in CATALOG.values():
        digests = [model.gguf_sha256, *(wheel.sha256 for wheel in model.wheels)]
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
        assert len({wheel.requirement for wheel in model.wheels}) == len(model.wheels)
        assert all("==" in wheel.requirement for wheel in model.wheels)


def test_the_command_that_installs_a_model_is_known() -> None:
    assert pull_command(DEFAULT_MODEL) == "model pull"
    assert pull_command("qwen2.5-coder-1.5b") == "model pull qwen2.5-coder-1.5b"
    assert "GGUF" in pull_command("mine")
