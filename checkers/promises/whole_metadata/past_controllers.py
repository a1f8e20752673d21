"""Controllers that were replaced before a broker began, and that it names all the same, for
`checkers.promises.whole_metadata`.

A broker begins without a controller, and names the one whose UpdateMetadata it took in. Such a
request names the registration of the broker that it is for (KIP-380), which whoever was replaced
before that was made cannot know: he is refused. So nobody is named in a broker's life who was
replaced before it began.

Lawful, and looks similar: who is replaced while the broker lives, or just before it begins, for as
long as either has not heard of the other; who was elected again; what a forger told
(`checkers.facts.forgeries`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from checkers.facts.answers import Named, Node
from checkers.facts.office import Election

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "controller-of-the-past"
HEARD_NS: Final = 5_000_000_000
"""So soon who was replaced has heard of it, and sends nothing more to whoever comes."""


def starts(history: History) -> dict[Node, list[int]]:
    """By (arm, trial, node): when (ns) the harness started it, ascending."""
    found: dict[Node, list[int]] = {}
    for row in history.rows("node_event"):
        if row["event"] == "start" and row["node"] is not None:
            found.setdefault((row["arm"], row["trial"], row["node"]), []).append(row["t"])
    return {node: sorted(times) for node, times in found.items()}


def of_the_past(
    answers: Iterable[Named],
    started: Mapping[Node, Sequence[int]],
    elected: Mapping[tuple[str, int], Sequence[Election]],
    excused: Callable[[Named, str], bool],
) -> Iterator[tuple[Named, Election]]:
    """The first such answer of each life, and who had followed."""
    seen: set[tuple[Node, int]] = set()
    for one in sorted(answers, key=lambda each: each.first_t):
        times = started.get(one.broker, ())
        place = bisect_right(times, one.first_invoke_t)
        if not place or one.controller_id is None or (one.broker, place) in seen:
            continue
        known = elected.get(one.topic[:2], ())
        own = [e for e in known if e.node == one.controller_id]
        since_t = times[place - 1]
        newer = [
            later
            for later in known
            if later.t + HEARD_NS < since_t
            and own
            and later.controller_epoch > own[-1].controller_epoch
        ]
        if newer and not excused(one, RULE):
            seen.add((one.broker, place))
            yield one, newer[0]
