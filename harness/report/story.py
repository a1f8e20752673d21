"""What the page's sections share: the run's folder and what was derived from it once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.report import key_figures, timeline
from harness.report.markup import Html, tag
from harness.report.panels import Figure
from harness.report.pictures import colour_of
from harness.report.run_folder import RunFolder
from harness.report.timeline import Clock, Commit, FaultTime, Key


class Nothing(Exception):
    """A section has nothing to show: it is left out, and why is said once, at the end."""


@dataclass(slots=True)
class Story:
    """A run, ready to be told. ``figures``: by element id, then by round, Plotly JSON;
    ``left_out``: sections that have nothing to show, and why."""

    folder: RunFolder
    names: dict[str, str]
    clocks: dict[Key, Clock]
    faults: dict[Key, list[FaultTime]]
    commits: dict[Key, list[Commit]]
    down: dict[tuple[str, int, int], list[tuple[int, int]]]
    figures: dict[str, dict[str, Figure]] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, folder: RunFolder) -> Story:
        return cls(
            folder,
            key_figures.short_names(folder.results) or key_figures.short_names(folder.run),
            timeline.clocks(folder),
            timeline.faults(folder),
            timeline.commits(folder),
            timeline.down_spans(folder),
        )

    @property
    def results(self) -> dict[str, Any]:
        return self.folder.results

    @property
    def arms(self) -> list[str]:
        return self.folder.arms

    def name(self, arm: str) -> str:
        return self.names.get(arm, arm)

    def colour(self, arm: str) -> str:
        """A name of the page's palette, with ``$``. Arms of one plane mode share it unless there
        are several."""
        planes = [self.folder.planes(a) for a in self.arms]
        own = self.folder.planes(arm)
        place = self.arms.index(arm) if arm in self.arms else 0
        return colour_of(own if planes.count(own) == 1 else "", place)

    def badge(self, arm: str) -> Html:
        """The arm's name with its colour, the same in tables and pictures."""
        colour = f"--c: var(--{self.colour(arm).removeprefix('$')})"
        return tag("span", self.name(arm), class_="arm", style=colour)

    @property
    def rounds(self) -> list[int]:
        return sorted({trial for _, trial in self.clocks})

    def checks(self) -> dict[str, dict[str, Any]]:
        found = self.results.get("checks")
        return found if isinstance(found, dict) else {}


def section(element_id: str, title: str, *content: object) -> Html:
    """A part of the page with its heading."""
    heading = tag("h2", title, id=f"{element_id}-title")
    return tag(
        "section",
        heading,
        *content,  # type: ignore[arg-type]
        id=element_id,
        aria_labelledby=f"{element_id}-title",
    )


def part(title: str, content: Html | None) -> list[Html]:
    """A section's part with its heading; nothing of one that has nothing to show."""
    return [tag("h3", title), content] if content is not None else []


def note(*content: object) -> Html:
    """What is missing, or must be known to read what is shown."""
    return tag("p", *content, class_="note")  # type: ignore[arg-type]
