import importlib
import subprocess
import sys

import pytest

from agentvm.drivers.base import Driver, DriverSettings
from agentvm.drivers.registry import DRIVERS, KEY_VARIABLES, open_driver
from agentvm.errors import DriverNotFound, MissingKey
from agentvm.model.secret import Secret


@pytest.mark.parametrize("name", DRIVERS)
async def test_every_name_opens_the_driver_of_that_name(name: str) -> None:
    async with open_driver(name, DriverSettings(api_key=Secret("k"))) as driver:
        checked: Driver = driver
        assert checked.name == name
        assert checked.default_model
        assert checked.context_window(checked.default_model) > 1000


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(DriverNotFound, match="anthropic, local, openai, scripted"):
        open_driver("gpt", DriverSettings())


@pytest.mark.parametrize(("name", "variable"), KEY_VARIABLES.items())
def test_a_missing_key_names_the_variables_and_the_way_without(name: str, variable: str) -> None:
    with pytest.raises(MissingKey) as caught:
        open_driver(name, DriverSettings())
    assert "LLM_API_KEY" in str(caught.value)
    assert variable in str(caught.value)
    assert "--model local" in str(caught.value)


async def test_a_chat_endpoint_of_ones_own_needs_no_key() -> None:
    async with open_driver("openai", DriverSettings(base_url="http://127.0.0.1:11434/v1")) as driver:
        assert driver.name == "openai"
    with pytest.raises(MissingKey):
        open_driver("anthropic", DriverSettings(base_url="http://127.0.0.1:1"))


def test_knowing_the_drivers_imports_none_of_them() -> None:
    program = (
        "import sys, agentvm.drivers.registry; print(*[m for m in ('anthropic', 'openai', 'xllamacpp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("target", DRIVERS.values())
def test_every_entry_of_the_table_leads_somewhere(target: str) -> None:
    module, _, attribute = target.partition(":")
    assert callable(getattr(importlib.import_module(module), attribute))
