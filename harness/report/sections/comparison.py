"""Arms side by side, with ratios, and what they amount to in a sentence each."""

from __future__ import annotations

from typing import Final

from harness.report import units
from harness.report.key_figures import GROUPS, KeyFigure, effects, pairs, ratio, value
from harness.report.markup import Content, Html, table, tag
from harness.report.story import Nothing, Story, note, section

_SIGNS: Final = {
    "seen": ("●", "effect"),
    "absent": ("○", "no effect"),
    "reverse": ("▼", "the other way round"),
    "unmeasured": ("–", "not measured"),  # noqa: RUF001
}


def comparison(story: Story) -> Html:
    arms, compared = story.arms, pairs(story.results)
    rows: list[Html] = []
    for group, figures in GROUPS.items():
        lines = [line for f in figures if (line := _line(story, f, compared)) is not None]
        if lines:
            width = 1 + len(arms) + len(compared)
            rows.append(
                tag("tr", tag("th", group, colspan=width, scope="colgroup"), class_="group")
            )
            rows += lines
    if not rows:
        raise Nothing("no figure was measured in any arm")
    head: list[Content] = ["", *(story.badge(arm) for arm in arms)]
    head += [f"{story.name(a)} ÷ {story.name(b)}" for a, b in compared]
    numeric = set(range(1, len(head)))
    return section(
        "comparison",
        "Comparison",
        _sentences(story),
        table(head, rows, class_="compare", numeric=numeric),
        None if compared else note("There are no two arms of one system that differ in planes."),
    )


def _line(story: Story, figure: KeyFigure, compared: list[tuple[str, str]]) -> Html | None:
    values = {arm: value(story.results, arm, figure.path) for arm in story.arms}
    if all(v is None for v in values.values()):
        return None
    cells = [tag("td", figure.write(v), class_="num") for v in values.values()]
    for a, b in compared:
        cells.append(_ratio(values[a], values[b]) if figure.compared else tag("td"))
    return tag("tr", tag("th", figure.label, scope="row"), cells)


def _ratio(left: float | None, right: float | None) -> Html:
    if left is not None and right == 0:
        return tag("td", "both 0" if left == 0 else "∞", class_="num weak")
    found = ratio(left, right)
    strong = found is not None and (found >= 1.5 or found <= 1 / 1.5)
    return tag("td", units.times(found), class_="num strong" if strong else "num weak")


def _sentences(story: Story) -> Html | None:
    items = []
    for effect in effects(story.results):
        sign, says = _SIGNS[effect.sign]
        items.append(
            tag(
                "li",
                tag("span", sign, class_="mark", aria_hidden="true"),
                tag("span", tag("b", f"{effect.question.capitalize()} ({says}). "), effect.says),
                class_=f"effect {effect.sign}",
            )
        )
    return tag("ul", items, class_="effects") if items else None
