import secrets
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.secret import Secret
from agentvm.tenants.keys import ALPHABET, KEY_CHARACTERS, digest, make_key, matches, parse_key, random_text

KEY = "avm_0123456789AB_abcdefghijklmnopqrstuvwxyzABCDEF_"
PEPPER = b"p" * 32

texts = st.builds(lambda bits: make_key(lambda size: bits % (1 << size))[1].reveal(), st.integers(0, (1 << 300) - 1))


def test_a_new_key_has_the_form_and_is_read_as_what_was_made() -> None:
    key_id, secret = make_key(secrets.randbits)
    text = secret.reveal()
    assert len(text) == KEY_CHARACTERS == 56
    assert [len(part) for part in text.split("_")] == [3, 12, 32, 6]
    parsed = parse_key(text)
    assert parsed is not None
    assert (parsed.key_id, parsed.secret.reveal()) == (key_id, text)


def test_no_two_keys_are_alike() -> None:
    made = {make_key(secrets.randbits)[1].reveal() for _ in range(1000)}
    assert len(made) == 1000
    assert {letter for text in made for letter in text.split("_")[2]} == set(ALPHABET)


@given(texts)
def test_every_key_that_can_be_made_is_recognised(text: str) -> None:
    parsed = parse_key(text)
    assert parsed is not None
    assert text.startswith(f"avm_{parsed.key_id}_")


@given(texts, st.integers(0, KEY_CHARACTERS - 1), st.one_of(st.sampled_from(ALPHABET + "_-. "), st.characters()))
def test_any_changed_character_is_refused(text: str, at: int, letter: str) -> None:
    changed = text[:at] + letter + text[at + 1 :]
    assert (parse_key(changed) is None) == (changed != text)


@given(texts, st.integers(0, KEY_CHARACTERS - 2))
def test_two_neighbours_that_changed_places_are_refused(text: str, at: int) -> None:
    swapped = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    assert (parse_key(swapped) is None) == (swapped != text)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    assert parse_key(text) is None


@pytest.mark.parametrize(
    "change", [str.upper, str.lower, lambda text: text + "\n", lambda text: " " + text, lambda text: text[:-1]]
)
def test_what_only_resembles_a_key_is_refused(change: object) -> None:
    text = make_key(secrets.randbits)[1].reveal()
    assert callable(change)
    assert parse_key(change(text)) is None


def test_letters_of_other_scripts_are_no_letters_of_a_key() -> None:
    assert all(letter in string.ascii_letters + string.digits for letter in ALPHABET)
    assert parse_key("avm_" + "٣" * 12 + "_" + "x" * 32 + "_" + "x" * 6) is None


def test_a_digest_belongs_to_one_key_and_one_pepper() -> None:
    _, secret = make_key(secrets.randbits)
    _, other = make_key(secrets.randbits)
    stored = digest(PEPPER, secret)
    assert len(stored) == 32
    assert matches(PEPPER, secret, stored)
    assert not matches(PEPPER, other, stored)
    assert not matches(b"q" * 32, secret, stored)
    assert not matches(PEPPER, secret, b"")


def test_a_key_does_not_print_itself() -> None:
    _, secret = make_key(secrets.randbits)
    parsed = parse_key(secret.reveal())
    assert secret.reveal().split("_")[2] not in repr(parsed) + str(parsed) + repr(secret)


def test_random_text_uses_the_bits_it_was_given() -> None:
    assert random_text(lambda bits: 0, 5) == "00000"
    assert random_text(lambda bits: 61, 3) == "00z"
    assert isinstance(Secret(random_text(secrets.randbits, 32)), Secret)
