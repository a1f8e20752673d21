"""How a record that was acknowledged with acks=1 may lawfully be gone.

Its broker N appended it, acknowledged it and lost the leadership before anybody else had it. Each
step has a witness besides N:

1. N led: ZooKeeper committed a leader epoch with N as its leader that may have held when the record
   was appended. N's own word that it had followed somebody by then counts against N only.
2. N was demoted: a higher leader epoch was committed with another leader.
3. The next leader never had the record. As long as nobody else is committed as leader, N alone
   writes, in order: if the final log holds a later record of the very reign in which N appended it,
   it must hold this one (Raft calls it log matching). Where it is not certain in which reign that
   was, this says nothing.
4. N's log does not have it any more, or could not be asked: N truncated it, lawfully by itself
   (`checkers.facts.cuts`); or N is no replica any more; or a fault cut it off; or N does not run;
   or N holds it still and has yet to follow. N's silence is no explanation where brokers trace.

When the client did not say which broker acknowledged, any that can have is tried. Epochs of a
topic's earlier lives are left out: what was offered then may have gone with the topic, which is an
excuse of its own. Pure: no Spark.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice, takewhile
from typing import Final

from checkers.facts.cuts import Cut
from checkers.facts.leadership import ALWAYS, Epoch, Leadership

CUT: Final = "cut"
UNEXPLAINED: Final = "unexplained"
UNREAD: Final = "unread"
"""Its broker runs and its log could not be read: nobody can say."""
UNDECIDED: Final = "undecided"
"""No leadership was recorded."""
_BEST_FIRST: Final = (CUT, "removed", "damage", "held", "stranded", UNREAD, "untraced")
_NO_LEADER: Final = "no leader was committed that can have acknowledged it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a broker said it was from some moment between ``earliest_t`` and ``latest_t`` (ns)."""

    earliest_t: int
    latest_t: int
    leads: bool
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A record that is gone; ``node`` and ``offset`` where the client was told. Times in ns.

    ``away``: nodes that did not run while it was appended; ``damaged``: whose log a fault cut
    there; ``holders``: that have it in the end."""

    node: int | None
    offset: int | None
    append_from: int
    append_to: int
    away: frozenset[int] = frozenset()
    damaged: frozenset[int] = frozenset()
    holders: frozenset[int] = frozenset()


@dataclass(slots=True, kw_only=True)
class Partition:
    """All that is known of one partition. ``ends``: of the final log, by leader epoch, the offset
    of its last record. ``replicas``: in the end, by node: "read", "down" or "unread"."""

    leadership: Leadership | None
    cuts: Sequence[Cut] = ()
    roles: Mapping[int, Sequence[Role]] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    replicas: Mapping[int, str] = field(default_factory=dict)
    traced: bool = True
    order: _Order | None = field(default=None, init=False, repr=False, compare=False)
    """Of its epochs and roles, made when first asked for."""


class _Order:
    """A partition's epochs in this life of its topic, and its brokers' roles, so that a record is
    held against those of its time only."""

    def __init__(self, known: Leadership, roles: Mapping[int, Sequence[Role]]) -> None:
        self.epochs = [e for e in known.epochs if e.incarnation == known.incarnations - 1]
        self.numbers = [e.leader_epoch for e in self.epochs]
        begun = (ALWAYS if e.earliest_t is None else e.earliest_t for e in reversed(self.epochs))
        self.soonest_t = list(accumulate(begun, min))[::-1]
        """By epoch, when that or a higher one can have begun first."""
        # What brokers said of their roles does not say in which life of the topic that was.
        one_life = known.incarnations == 1
        self._roles = {
            (node, leads): self._newest([role for role in of if role.leads == leads])
            for node, of in (roles.items() if one_life else ())
            for leads in (True, False)
        }

    @staticmethod
    def _newest(roles: Sequence[Role]) -> tuple[list[int], list[int]]:
        """By the last moment that it can mean, the newest epoch told by then."""
        told = sorted((role.latest_t, role.leader_epoch) for role in roles)
        return [t for t, _ in told], list(accumulate((epoch for _, epoch in told), max))

    def led(self, node: int, by_t: int) -> int:
        """The newest epoch that it certainly said to lead in by then (ns); -1: none."""
        times, epochs = self._roles.get((node, True), ([], []))
        place = bisect_right(times, by_t)
        return epochs[place - 1] if place else -1

    def heard(self, node: int, before_t: int) -> int:
        """The newest epoch that it certainly followed in before."""
        times, epochs = self._roles.get((node, False), ([], []))
        place = bisect_left(times, before_t)
        return epochs[place - 1] if place else -1


@dataclass(frozen=True, slots=True)
class Fate:
    """Why a record is gone (`CUT`, the name of an excuse, `UNREAD`, `UNDECIDED`, `UNEXPLAINED`),
    the cut that took it, and in words what spoke against every explanation."""

    name: str
    cut: Cut | None = None
    why: str = ""


def fate(lost: Lost, of: Partition) -> Fate:
    """What became of it, going by the best explanation that holds."""
    if of.leadership is None:
        return Fate(UNDECIDED)
    led_by = {e.leader for e in of.leadership.commits if e.leader is not None and e.leader >= 0}
    nodes = sorted(led_by) if lost.node is None else [lost.node]
    if of.order is None:
        of.order = _Order(of.leadership, of.roles)
    found = [_at(node, lost, of, of.order) for node in nodes]
    explained = [one for one in found if one.name in _BEST_FIRST]
    if explained:
        return min(
            explained,
            key=lambda one: (_BEST_FIRST.index(one.name), one.cut.cut_t if one.cut else 0),
        )
    reasons = dict.fromkeys(one.why for one in found if one.why != _NO_LEADER)
    return Fate(UNEXPLAINED, None, "; ".join(reasons) or _NO_LEADER)


def _at(node: int, lost: Lost, of: Partition, order: _Order) -> Fate:
    """Its fate, if that node acknowledged it."""
    may_lead = _may_have_led(node, lost, order)
    if not may_lead or node in lost.away:
        return Fate(UNEXPLAINED, None, _NO_LEADER)
    against = _against(node, lost, of, order, may_lead)
    if against is not None:
        return Fate(UNEXPLAINED, None, against)
    cuts = [cut for cut in of.cuts if cut.node == node and _takes(cut, lost)]
    lawful = [cut for cut in cuts if cut.wrong is None]
    if lawful:
        cut = min(lawful, key=lambda c: c.cut_t)
        return Fate("removed" if cut.whole else CUT, cut)
    if of.replicas and node not in of.replicas:
        return Fate("removed")
    if node in lost.damaged:
        return Fate("damage")
    if node in lost.holders:
        return Fate("held")
    state = of.replicas.get(node)
    if state == "down":
        return Fate("stranded")
    if state == "unread":
        return Fate(UNREAD)
    if not of.traced:
        return Fate("untraced")
    wrong = [f"node {node} cut it although {cut.wrong}" for cut in cuts]
    return Fate(UNEXPLAINED, None, wrong[0] if wrong else "no truncation took it")


def _against(
    node: int, lost: Lost, of: Partition, order: _Order, may_lead: Sequence[Epoch]
) -> str | None:
    """What ZooKeeper and the final log say against its having gone with that node's leadership."""
    first, last = may_lead[0].leader_epoch, may_lead[-1].leader_epoch
    begin = bisect_left(order.numbers, first)

    def later() -> Iterator[Epoch]:
        return islice(order.epochs, begin, None)

    assert of.leadership is not None
    missed = of.leadership.shown and any(e.leader is None for e in later())
    if not missed and not any(
        e.leader not in (None, node) and (e.leader or 0) >= 0 for e in later()
    ):
        return f"no other leader was committed after node {node}"
    reign = [e.leader_epoch for e in takewhile(lambda e: e.leader == node, later())]
    if last not in reign or lost.offset is None:
        return None
    ends = {epoch: of.ends[epoch] for epoch in reign if epoch in of.ends}
    beyond = [epoch for epoch, end in ends.items() if end >= lost.offset]
    if not beyond:
        return None
    return (
        f"the final log goes on to offset {ends[beyond[0]]} in leader epoch {beyond[0]}, in which "
        f"node {node} wrote as before"
    )


def _takes(cut: Cut, lost: Lost) -> bool:
    covers = lost.offset is None or cut.to_offset <= lost.offset < cut.from_offset
    return covers and cut.cut_t >= lost.append_from


def _may_have_led(node: int, lost: Lost, order: _Order) -> list[Epoch]:
    """The epochs in which that node may have appended it, ascending."""
    newest = max(order.led(node, lost.append_from), order.heard(node, lost.append_from) + 1)
    found = []
    for number in range(bisect_left(order.numbers, newest), len(order.numbers)):
        if order.soonest_t[number] > lost.append_to:
            break
        epoch = order.epochs[number]
        begun = epoch.earliest_t is None or epoch.earliest_t <= lost.append_to
        if begun and epoch.leader in (node, None):
            found.append(epoch)
    return found
