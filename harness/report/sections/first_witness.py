"""What went wrong: the first witness, on the timeline of its partition, in plain words.

It stands before everything else in a red report: who opens one wants to know what broke.
"""

from __future__ import annotations

from harness.report import units
from harness.report.glossary import explained
from harness.report.markup import Content, Html, details, table, tag
from harness.report.sections.latency import plot
from harness.report.story import Nothing, Story, section
from harness.report.witness_picture import witness_picture
from harness.report.witness_story import Broken, Line, WitnessStory, first_broken, tell


def first_witness(story: Story) -> Html:
    """Raises `Nothing` in a run in which no witness was kept."""
    broken = first_broken(story)
    if broken is None:
        raise Nothing("no violation with a witness")
    told = tell(story, broken)
    clock = story.clocks.get((broken.arm, broken.trial))
    picture = None
    if clock is not None:
        story.figures["plot-witness"] = {"": witness_picture(told, clock)}
        picture = plot(
            "plot-witness",
            "The timeline: faults, leaders, brokers, and the numbered events that prove it. The "
            "list below tells the same.",
            _caption(told),
        )
    return section(
        "wrong",
        "What went wrong first",
        tag("p", broken.says, class_="wrong"),
        _facts(story, told),
        picture,
        _events(told, clock.zero_t if clock else told.begin_t, clock is not None),
        _glossary(told),
        tag("p", tag("a", "All violations", href="#violations")),
    )


def place(told: WitnessStory) -> str:
    """Of which partition it is."""
    return f"{told.partition[0]}-{told.partition[1]}" if told.partition else "the cluster"


def _caption(told: WitnessStory) -> str:
    numbers = len(told.witness)
    proof = "The numbered event proves" if numbers == 1 else f"Events 1 to {numbers} prove"
    return f"{place(told)}: {proof} it; the rest is what happened around."


def _facts(story: Story, told: WitnessStory) -> Html:
    broken = told.broken
    several = f", round {broken.trial}" if len(story.rounds) > 1 else ""
    facts: list[tuple[str, Content]] = [
        ("What should hold", broken.should or broken.promise),
        ("Where", [place(told), ", in ", story.badge(broken.arm), several]),
        ("Found by", [tag("code", broken.check), ", rule ", tag("code", broken.rule)]),
        ("How often", _how_often(story, broken)),
    ]
    rows = [[tag("dt", name), tag("dd", value)] for name, value in facts if value]
    return tag("dl", rows, class_="facts")


def _how_often(story: Story, broken: Broken) -> Content:
    counts = story.checks()[broken.check].get("violation_counts") or {}
    own = int(counts.get(broken.rule) or 1)
    all_ = sum(
        sum((check.get("violation_counts") or {}).values()) for check in story.checks().values()
    )
    others = f", and {units.words(all_ - own, 'violation')} of other rules" if all_ > own else ""
    return f"{units.words(own, 'time')} in this run{others}"


def _events(told: WitnessStory, zero_t: int, chaos: bool) -> Html:
    rows = [_row(line, zero_t) for line in told.lines]
    since = "chaos began" if chaos else "shortly before the first of them"
    left_out = f" {told.left_out} further from it are left out." if told.left_out else ""
    return table(
        ["", "s", "what happened", "meanwhile", "told by"],
        rows,
        caption=f"In order of time, in seconds since {since}. Numbered: what proves it.{left_out}",
        class_="told",
        numeric={1},
    )


def _row(line: Line, zero_t: int) -> Html:
    number = tag("span", line.number, class_="number") if line.number is not None else None
    return tag(
        "tr",
        tag("td", number),
        tag("td", f"{(line.t - zero_t) / 1e9:.3f}", class_="num"),
        tag("td", line.says, class_="event"),
        tag("td", line.meanwhile, class_="small"),
        tag("td", line.who, class_="small"),
        class_="proof" if line.number is not None else None,
    )


def _glossary(told: WitnessStory) -> Html | None:
    broken = told.broken
    said = [broken.says, broken.should, *(line.says for line in told.lines)]
    said += [line.meanwhile for line in told.lines]
    words = explained(" ".join(said))
    if not words:
        return None
    rows = [[tag("dt", word), tag("dd", says)] for word, says in words]
    return details("The words used", tag("dl", rows, class_="facts"), open_=True)
