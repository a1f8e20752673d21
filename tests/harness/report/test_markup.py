"""markup: whatever a string says, it stays a string."""

from __future__ import annotations

import html
import json
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from harness.report.markup import Html, data, table, tag, visible


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@given(st.text())
def test_text_is_never_markup(hostile: str) -> None:
    reader = Reader()
    reader.feed(tag("p", tag("b", hostile), hostile, title=hostile))
    reader.close()
    assert reader.tags == ["p", "b"]
    assert "".join(reader.words) == html.unescape(html.escape(visible(hostile) * 2))


@given(st.text())
def test_data_cannot_end_its_element(hostile: str) -> None:
    written = data({"says": hostile}, "figures")
    body = written.removeprefix('<script type="application/json" id="figures">')
    body = body.removesuffix("</script>")
    assert "<" not in body
    assert json.loads(body) == {"says": hostile}


def test_escape_sequences_are_shown_not_sent() -> None:
    assert visible("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"


def test_attributes() -> None:
    assert (
        tag("input", name_="round", checked=True, disabled=False) == '<input name="round" checked>'
    )
    assert tag("th", "x", class_=None, aria_label='a"b') == '<th aria-label="a&quot;b">x</th>'


def test_tables_take_cells_and_rows() -> None:
    made = table(["a", "b"], [("x", 1), Html("<tr><td>ready</td></tr>")], numeric={1})
    assert '<td>x</td><td class="num">1</td>' in made
    assert "<tr><td>ready</td></tr>" in made
    assert 'tabindex="0"' in made
