"""Acknowledged records that are gone: by cause, and each with the truncation that took it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.report import units
from harness.report.key_figures import CAUSES, figures
from harness.report.markup import Content, Html, table, tag
from harness.report.story import Nothing, Story, part, section
from harness.report.truncations import Cut, Loss, losses

CHECK: Final = "truncation-loss"
_SHOWN: Final = 200
_BROKEN: Final = frozenset({"acked_all", "unexplained"})
_READ: Final = {
    "read_then_lost": "read by a consumer, then gone: a violation",
}


def lost_records(story: Story) -> Html:
    measured = {arm: figures(story.results, CHECK, arm) for arm in story.arms}
    if not any(measured.values()):
        raise Nothing(_why_not(story))
    return section(
        "losses",
        "Lost records",
        _causes(story, measured),
        part("Each with its truncation", _truncations(story)),
    )


def _why_not(story: Story) -> str:
    check = story.checks().get(CHECK)
    if check is None:
        return "the scenario does not ask for truncation-loss"
    reasons = check.get("reasons") or ["no acknowledged record could be judged"]
    return str(reasons[0]).splitlines()[0]


def _causes(story: Story, measured: Mapping[str, Mapping[str, Any]]) -> Html:
    def lost(arm: str, cause: str) -> int:
        return int((measured[arm].get("lost") or {}).get(cause, 0))

    named = {c for arm in story.arms for c in measured[arm].get("lost") or {}}
    causes = [c for c in CAUSES if c in named or c in ("avoidable", "before_commit")]
    causes += sorted(named - set(CAUSES))
    rows: list[Html] = []
    for label, key in (
        ("acknowledged with acks=1", "acked_1"),
        ("acknowledged with acks=all", "acked_all"),
    ):
        if any(measured[arm].get(key) for arm in story.arms):
            rows.append(_row(label, "", [measured[arm].get(key) or 0 for arm in story.arms]))
    for cause in causes:
        name, means = CAUSES.get(cause, (cause, ""))
        rows.append(
            _row(f"lost: {name}", means, [lost(arm, cause) for arm in story.arms], cause in _BROKEN)
        )
    for key, means in _READ.items():
        if any(measured[arm].get(key) for arm in story.arms):
            rows.append(
                _row("lost", means, [measured[arm].get(key, 0) for arm in story.arms], True)
            )
    errors = [e for arm in story.arms if (e := measured[arm].get("clock_error_ms")) is not None]
    head: list[Content] = ["", *(story.badge(arm) for arm in story.arms), "means"]
    tied = f"Append times are known to ± {units.ms(max(errors))}." if errors else None
    return tag(
        "div",
        table(head, rows, numeric=set(range(1, 1 + len(story.arms)))),
        tag("p", tied, class_="small") if tied else None,
    )


def _row(label: str, means: str, amounts: list[int], broken: bool = False) -> Html:
    cells = [
        tag(
            "td",
            units.count(n),
            class_="num bad" if broken and n else "num strong" if n else "num weak",
        )
        for n in amounts
    ]
    return tag("tr", tag("th", label, scope="row"), cells, tag("td", means, class_="small"))


def _truncations(story: Story) -> Html | None:
    found = losses(story.folder)
    order = {arm: place for place, arm in enumerate(story.arms)}
    found.sort(key=lambda loss: order.get(loss.place[0], len(order)))
    if not found:
        return None
    head = [
        "arm",
        "round",
        "partition",
        "records lost",
        "cut by",
        "offsets cut",
        "committed",
        "LeaderAndIsr sent",
        "obeyed",
        "cut",
        "went on for",
    ]
    rows = [row for loss in found[:_SHOWN] for row in _loss_rows(story, loss)]
    more = f" The {_SHOWN} largest of {len(found)} are shown." if len(found) > _SHOWN else ""
    caption = (
        "Moments in seconds since chaos began. “Went on for”: from sending the LeaderAndIsr until "
        f"the broker obeyed it; what it acknowledged in between is avoidable loss.{more}"
    )
    return table(head, rows, caption=caption, numeric={1, *range(6, 11)})


def _loss_rows(story: Story, loss: Loss) -> list[Html]:
    arm, trial, topic, partition = loss.place
    causes = ", ".join(
        f"{n:,} {CAUSES.get(c, (c, ''))[0]}" for c, n in sorted(loss.by_cause.items())
    )
    broker = "no cut is known" if loss.node is None else f"node {loss.node}"
    first = [
        tag("td", story.badge(arm)),
        tag("td", trial, class_="num"),
        tag("td", f"{topic}-{partition}"),
        tag("td", causes),
        tag("td", broker, class_="whole"),
    ]
    if not loss.cuts:
        return [tag("tr", first, tag("td", "–", colspan=6))]  # noqa: RUF001
    rows = []
    for index, cut in enumerate(loss.cuts):
        start = first if index == 0 else [tag("td")] * len(first)
        rows.append(tag("tr", start, _cut_cells(story, arm, trial, cut)))
    return rows


def _cut_cells(story: Story, arm: str, trial: int, cut: Cut) -> list[Html]:
    clock = story.clocks.get((arm, trial))

    def at(t: int | None) -> str:
        return f"{clock.seconds(t):.3f}" if clock and t is not None else units.NOT_MEASURED

    exposed = units.ms(None if cut.exposed_ns is None else cut.exposed_ns / 1e6)
    times = [at(t) for t in (cut.commit_t, cut.send_t, cut.obeyed_t, cut.cut_t)]
    amount = cut.from_offset - cut.to_offset
    where = f"{cut.to_offset:,} to {cut.from_offset - 1:,} ({amount:,})"
    return [
        tag("td", where, class_="whole", title=cut.reason or None),
        *(tag("td", t, class_="num") for t in [*times, exposed]),
    ]
