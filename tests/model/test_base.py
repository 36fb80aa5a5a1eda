from dataclasses import dataclass

import msgspec
import pytest

from agentvm.model.base import Record, record_from


class Fact(Record):
    first_name: str
    nick_name: str | None = None


class Tagged(Record, tag="tagged", tag_field="type"):
    size: int = 0


def test_a_record_is_camel_case_json_without_what_is_unset() -> None:
    assert msgspec.json.encode(Fact(first_name="Ada")) == b'{"firstName":"Ada"}'
    assert msgspec.json.decode(b'{"firstName":"Ada","nickName":null,"extra":1}', type=Fact) == Fact(first_name="Ada")


def test_subclasses_are_frozen_and_keyword_only_too() -> None:
    fact = Fact(first_name="Ada")
    with pytest.raises(AttributeError):
        fact.first_name = "Bob"  # type: ignore[misc]  # it is frozen, which is the point
    with pytest.raises(TypeError):
        Fact("Ada")  # type: ignore[call-arg]  # it is keyword-only, which is the point


def test_a_subclass_may_add_options() -> None:
    assert msgspec.json.encode(Tagged(size=1)) == b'{"type":"tagged","size":1}'


def test_a_record_takes_the_fields_that_its_sources_share_and_the_last_source_wins() -> None:
    class Source(Record):
        name: str
        size: int
        extra: bool = True

    class Target(Record):
        name: str
        size: int
        note: str | None = None

    @dataclass
    class Plain:
        name: str
        note: str

    first, last = Source(name="a", size=1), Plain("b", "n")
    assert record_from(Target, first, last, size=3) == Target(name="b", size=3, note="n")
    assert record_from(Plain, first, note="m") == Plain("a", "m")
    with pytest.raises(TypeError):
        record_from(Target, last)
