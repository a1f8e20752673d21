"""Stale metadata: brokers behind over time, what clients were told, how fast news travelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.report import units
from harness.report.behind import behind
from harness.report.key_figures import figures, value
from harness.report.markup import Html, table, tag, text
from harness.report.pictures import behind_over_time
from harness.report.sections.latency import panel, plot
from harness.report.story import Nothing, Story, note, part, section

CHECK: Final = "stale-metadata"
_QUANTILES: Final = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
_HEAD: Final = ("p50", "p90", "p99", "max")
_ALL: Final = "all brokers"
_PARTS: Final = (
    ("flooded", "under flood"),
    ("beside", "beside the flood: the floor"),
)
_WAITED_MS: Final = 20.0
"""From here on a read, which takes a millisecond or two, waited for its turn."""
_READ_FROM: Final = {
    "metadata_update": "as its metadata cache was updated",
    "metadata": "as it answered clients (this system does not trace its cache)",
}


def metadata(story: Story) -> Html:
    parts = [
        _picture(story),
        *part("What clients were told", _staleness(story)),
        *part("From a leader's commit to each broker", _propagation(story)),
        _convergence(story),
    ]
    if not any(parts):
        raise Nothing("neither leaders nor what brokers told of them were recorded")
    return section("metadata", "Stale metadata", parts)


def _picture(story: Story) -> Html | None:
    brokers, kind = behind(story.folder, story.clocks, story.commits)
    by_round = {}
    for trial in story.rounds:
        panels = [
            (p, brokers.get((arm, trial), {}))
            for arm in story.arms
            if (p := panel(story, arm, trial))
        ]
        figure = behind_over_time(panels) if panels else None
        if figure is not None:
            by_round[str(trial)] = figure
    if not by_round:
        return None
    story.figures["plot-behind"] = by_round
    return plot(
        "plot-behind",
        "How many partitions each broker was behind in over time, one panel an arm.",
        "How many partitions of the topics under test each broker was behind in: from the commit "
        f"of a leader until the broker showed it, {_READ_FROM.get(kind, '')}. Zero is best.",
    )


def _staleness(story: Story) -> Html | None:
    rows = []
    for arm in story.arms:
        found = figures(story.results, CHECK, arm)
        if not found.get("reads"):
            continue
        rows.append(_stale_row(story, arm, _ALL, found, found.get("staleness")))
        stale_by_node = found.get("staleness_by_node") or {}
        reads_by_node = found.get("reads_by_node") or {}
        for node in sorted(reads_by_node.keys() | stale_by_node.keys()):
            reads, stale = reads_by_node.get(node), stale_by_node.get(node) or {}
            number = stale.get("count", 0)
            own = {"reads": reads, "stale_reads": number}
            own["stale_share"] = number / reads if reads else None
            rows.append(_stale_row(story, arm, f"node {node}", own, stale))
    if not rows:
        return None
    head = ["", "arm", "answers", "stale", "share", *_HEAD]
    ages = table(
        head,
        rows,
        numeric=set(range(2, 9)),
        caption="Age of stale answers: since a newer leader was committed, when the client asked.",
    )
    return text([ages, _waits(story)])


def _stale_row(story: Story, arm: str, what: str, whole: Mapping[str, Any], stale: Any) -> Html:
    stale = stale if isinstance(stale, Mapping) else {}
    cells = [
        units.count(whole.get("reads")),
        units.count(whole.get("stale_reads")),
        units.share(whole.get("stale_share")),
        *(units.ms(stale.get(q)) for q in _QUANTILES),
    ]
    return tag(
        "tr",
        tag("th", what, scope="row"),
        tag("td", story.badge(arm)),
        [tag("td", cell, class_="num") for cell in cells],
        class_="first" if what == _ALL else None,
    )


def _waits(story: Story) -> Html | None:
    """Why a flooded broker's answers may be fresh although its news are late."""
    waits = {
        arm: value(story.results, arm, (CHECK, "reads_flooded", "p50_ms")) for arm in story.arms
    }
    known = {arm: wait for arm, wait in waits.items() if wait is not None}
    if not known:
        return None
    parts = [f"{units.ms(wait)} in {story.name(arm)}" for arm, wait in known.items()]
    says = f"A read of a broker that was being flooded took {units.listed(parts)} at p50."
    if min(known.values()) >= _WAITED_MS:
        says += (
            " Reads are data requests and wait in the data plane's queue in every plane mode; in a "
            "queue that they share with controller requests they wait behind the update itself, "
            "and come back late but fresh."
        )
    return note(says)


def _propagation(story: Story) -> Html | None:
    rows = []
    for name, says in (
        ("propagation_applied", "in the broker's cache"),
        ("propagation_shown", "in its answers to clients"),
    ):
        for arm in story.arms:
            found = figures(story.results, CHECK, arm)
            entry = found.get(name)
            if not isinstance(entry, Mapping) or not entry.get("count"):
                continue
            rows.append(_travel_row(story, arm, says, _ALL, entry))
            for segment, where in _PARTS:
                own = found.get(f"{name}_{segment}")
                if isinstance(own, Mapping):
                    rows.append(_travel_row(story, arm, "", where, own))
            for node, own in sorted((found.get(f"{name}_by_node") or {}).items()):
                rows.append(_travel_row(story, arm, "", f"node {node}", own))
    if not rows:
        return None
    head = ["seen", "arm", "broker", "epochs", *_HEAD, "summed"]
    return table(head, rows, numeric=set(range(3, 9)))


def _travel_row(story: Story, arm: str, says: str, broker: str, entry: Mapping[str, Any]) -> Html:
    cells = [
        units.count(entry.get("count")),
        *(units.ms(entry.get(q)) for q in _QUANTILES),
        units.ms(entry["stale_time_ms"]) if "stale_time_ms" in entry else "",
    ]
    return tag(
        "tr",
        tag("th", says, scope="row") if says else tag("td"),
        tag("td", story.badge(arm)),
        tag("td", broker),
        [tag("td", cell, class_="num") for cell in cells],
        class_="first" if says else None,
    )


def _convergence(story: Story) -> Html | None:
    """Whether brokers told the truth in the end, as far as anybody still asked them."""
    says = []
    for arm in story.arms:
        ends = figures(story.results, CHECK, arm).get("convergence")
        if not isinstance(ends, Mapping):
            continue
        judged = int(ends.get("converged") or 0) + int(ends.get("behind") or 0)
        told = f"{story.name(arm)}: {ends.get('converged') or 0:,} of {judged:,}"
        if ends.get("not_judged"):
            told += (
                f" ({ends['not_judged']:,} not judged: reads ended while a late update was still "
                "within its time)"
            )
        says.append(told)
    if not says:
        return None
    return note(
        "Brokers' last answers, partition by partition, that showed what was committed last, of "
        f"those that could be judged: {'; '.join(says)}."
    )
