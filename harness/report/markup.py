"""HTML that cannot be forgotten to escape: text is escaped unless it is `Html` already.

    tag("td", reason, class_="why")      reason is escaped, whoever wrote it
    tag("ul", [tag("li", r) for r in reasons])

Control characters of hostile strings are shown, not sent.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_VOID: Final = frozenset({"br", "hr", "input", "meta", "wbr"})


class Html(str):
    """Markup that is safe as it stands."""

    __slots__ = ()


Content: TypeAlias = "Html | str | int | float | Iterable[Content] | None"


def visible(value: str) -> str:
    """The text with control characters (escape sequences, direction marks) written out."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), value)


def text(content: Content) -> Html:
    """Anything as markup: `Html` as it is, lists joined, the rest escaped, None nothing."""
    if content is None:
        return Html("")
    if isinstance(content, Html):
        return content
    if isinstance(content, str | int | float):
        return Html(html.escape(visible(str(content))))
    return Html("".join(text(part) for part in content))


def tag(name: str, /, *children: Content, **attributes: str | int | bool | None) -> Html:
    """One element. ``class_`` and other names: a trailing _ is dropped, _ becomes -."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    inner = text(children)
    return Html(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{inner}</{name}>")


def data(value: Any, element_id: str) -> Html:
    """JSON for the page's script; no string in it can end the element."""
    dumped = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        dumped = dumped.replace(sign, f"\\u{ord(sign):04x}")
    return Html(f'<script type="application/json" id="{html.escape(element_id)}">{dumped}</script>')


def table(
    head: Sequence[Content],
    rows: Iterable[Sequence[Content] | Html],
    *,
    caption: Content = None,
    class_: str | None = None,
    numeric: frozenset[int] | set[int] = frozenset(),
) -> Html:
    """A table in a box of its own that scrolls sideways, by keyboard as well.

    ``numeric``: columns that are set flush right. A row may be ready-made markup.
    """

    def line(cells: Sequence[Content] | Html) -> Html:
        if isinstance(cells, Html):
            return cells
        first = cells[0] if isinstance(cells[0], Html) and cells[0].startswith("<th") else None
        start = first if first is not None else _cell("td", 0, cells[0])
        return tag("tr", start, [_cell("td", i, c) for i, c in enumerate(cells) if i])

    def _cell(name: str, index: int, content: Content) -> Html:
        if isinstance(content, Html) and content.startswith("<td"):
            return content
        return tag(name, content, class_="num" if index in numeric else None)

    heads = [
        tag("th", cell, scope="col", class_="num" if i in numeric else None) if cell else tag("td")
        for i, cell in enumerate(head)
    ]
    body = tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", tag("tr", heads)),
        tag("tbody", [line(row) for row in rows]),
        class_=class_,
    )
    return tag("div", body, class_="scroll", tabindex=0, role="group", aria_label="table")


def details(summary: Content, *content: Content, open_: bool = False) -> Html:
    return tag("details", tag("summary", summary), *content, open=open_)


def listing(summary: str, says: str) -> Html:
    """Text as it stands, folded away, in a box that scrolls, by keyboard as well."""
    return details(summary, tag("pre", says, tabindex=0, role="group", aria_label=summary))


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(visible(str(value)))}"'
