from agentvm.knowledge.fusing import fuse, words_factor


def test_what_both_rankings_have_comes_first() -> None:
    assert fuse("tea", [1, 2, 3], [4, 3, 5])[0] == 3
    assert fuse("tea", [1, 2], []) == [1, 2]
    assert fuse("tea", [], [2, 1]) == [2, 1]
    assert fuse("tea", [], []) == []


def test_words_weigh_more_in_a_question_that_is_mostly_chinese() -> None:
    assert fuse("怎么退货", [1], [2]) == [1, 2]
    assert (words_factor("怎么退货 iPhone?"), words_factor("return policy 退"), words_factor("??")) == (1, 1, 1)
    assert words_factor("怎么退货？") == 2
