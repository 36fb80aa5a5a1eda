from agentvm.errors.memory import MemoryNotFound, TooManyMemories


def test_the_texts_name_the_thing_and_the_remedy() -> None:
    assert "mem_1" in str(MemoryNotFound("mem_1"))
    assert len(str(MemoryNotFound("m" * 10_000))) < 500
    assert "at most 200 memories; delete one" in str(TooManyMemories(200))
