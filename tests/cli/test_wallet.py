import pytest
from tests.cli.desk import open_desk


async def test_money_is_paid_in_once_for_each_reference() -> None:
    async with open_desk() as desk:
        assert "Prepaid   no" in await desk.ok("wallet", "show")
        assert (await desk.ok("wallet", "credit", "$25.00", "--reference", "发票-1")).startswith("$25.00 credited (发票-1).\n")
        assert (await desk.ok("wallet", "credit", "25", "--reference", "发票-1")).startswith("发票-1 was credited before")
        taken = await desk.record("wallet", "credit", "-5", "--reference", "back", "--note", "a mistake")
        assert (taken["added"], taken["wallet"]["balance"]) == (True, 20_000_000_000)
        lines = (await desk.ok("wallet", "statement")).splitlines()
        assert len(lines) == 3
        assert {line["reference"]: line["amount"] for line in await desk.record("wallet", "statement", "--since", "1d")} == {
            "发票-1": 25_000_000_000,
            "back": -5_000_000_000,
        }
        assert await desk.record("wallet", "statement", "--until", "1d") == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("credit", "25"), 2),
        (("credit", "a lot", "--reference", "r"), 2),
        (("credit", "1e9", "--reference", "r"), 2),
        (("credit", "25", "--refrence", "r"), 2),
        (("credit", "0", "--reference", "r"), 1),
        (("statement", "--since", "then"), 2),
    ],
)
async def test_what_is_no_payment_is_explained(arguments: tuple[str, ...], code: int) -> None:
    async with open_desk() as desk:
        done = await desk.avm("wallet", *arguments)
        assert (done.code, done.out) == (code, "")
        assert done.err
