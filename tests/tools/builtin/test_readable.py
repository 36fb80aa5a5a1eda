import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.tools.builtin.readable import PAGE_MAX, readable

PAGE = """<!doctype html><html><head><title>The
 news</title><style>p { color: red }</style><script>var a = "<p>no</p>";</script></head>
<body><nav><a href="/">Home</a></nav>
<h1>Big  news</h1><p>First <b>para</b>graph,
with a <a href="/more?x=1&amp;y=2">link</a> &amp; an <img src="x" alt="image"> image.<p>Second.
<ul><li>one<li>two</ul><table><tr><td>a</td><td>b</td></tr><tr><td>c<td>d</table>
<pre>  def f():
      return 1</pre><a href="javascript:alert(1)">bad</a> <noscript>hidden</noscript><svg><text>hidden</text></svg>
<script>document.write("<p>also hidden")</script>end"""


def test_a_page_becomes_text_with_its_structure() -> None:
    title, text = readable(PAGE, "https://news.example/today/")
    assert title == "The news"
    assert text == (
        "[Home](https://news.example/)\n\n# Big news\n\n"
        "First paragraph, with a [link](https://news.example/more?x=1&y=2) & an [image: image] image.\n\n"
        "Second.\n- one\n- two\n\na | b\nc | d\n\n  def f():\n      return 1\nbad end"
    )


@given(st.text(), st.text(alphabet="<>/!-abp&;=\"' "))
def test_any_text_is_a_page(text: str, markup: str) -> None:
    readable(text + markup + text, "https://a.example/")


@pytest.mark.parametrize(
    "piece", ["<!--", "<a ", "<![CDATA[", "&", "<script>", "</", "<!", "<a<", "<div>", '<a href="', "<?", "&#x", "<p title='"]
)
def test_no_page_takes_for_ever(piece: str) -> None:
    started = time.process_time()
    readable(piece * (PAGE_MAX // len(piece)), "https://a.example/")
    assert time.process_time() - started < 10


def test_a_page_that_takes_too_long_is_cut_and_what_was_read_is_kept() -> None:
    times = iter(range(1000))
    _, text = readable("<p>first</p>" + "<p>more</p>" * 100_000, "https://a.example/", clock=lambda: next(times) * 1.0)
    assert text.startswith("first")
    assert text.count("more") < 100_000


def test_links_that_lead_nowhere_are_text() -> None:
    page = '<a href="http://[bad">x</a> <a>y</a> <a href="mailto:a@b">z</a> <a href="https://a.example/">https://a.example/</a>'
    assert readable(page, "https://a.example/")[1] == "x y z https://a.example/"
