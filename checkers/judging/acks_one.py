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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from checkers.facts.cuts import Cut
from checkers.facts.leadership import Epoch, Leadership

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
    found = [_at(node, lost, of, of.leadership) for node in nodes]
    explained = [one for one in found if one.name in _BEST_FIRST]
    if explained:
        return min(
            explained,
            key=lambda one: (_BEST_FIRST.index(one.name), one.cut.cut_t if one.cut else 0),
        )
    reasons = dict.fromkeys(one.why for one in found if one.why != _NO_LEADER)
    return Fate(UNEXPLAINED, None, "; ".join(reasons) or _NO_LEADER)


def _at(node: int, lost: Lost, of: Partition, known: Leadership) -> Fate:
    """Its fate, if that node acknowledged it."""
    may_lead = _may_have_led(node, lost, known, of.roles.get(node, ()))
    if not may_lead or node in lost.away:
        return Fate(UNEXPLAINED, None, _NO_LEADER)
    against = _against(node, lost, of, known, may_lead)
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
    node: int, lost: Lost, of: Partition, known: Leadership, may_lead: Sequence[Epoch]
) -> str | None:
    """What ZooKeeper and the final log say against its having gone with that node's leadership."""
    first, last = may_lead[0].leader_epoch, may_lead[-1].leader_epoch
    later = [e for e in _of_this_life(known) if e.leader_epoch >= first]
    if not any(e.leader not in (None, node) and (e.leader or 0) >= 0 for e in later):
        return f"no other leader was committed after node {node}"
    reign = [e.leader_epoch for e in takewhile(lambda e: e.leader == node, later)]
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


def _of_this_life(known: Leadership) -> list[Epoch]:
    return [e for e in known.epochs if e.incarnation == known.incarnations - 1]


def _takes(cut: Cut, lost: Lost) -> bool:
    covers = lost.offset is None or cut.to_offset <= lost.offset < cut.from_offset
    return covers and cut.cut_t >= lost.append_from


def _may_have_led(node: int, lost: Lost, known: Leadership, roles: Sequence[Role]) -> list[Epoch]:
    """The epochs in which that node may have appended it, ascending. What brokers said of their
    roles does not say in which life of the topic that was."""
    if known.incarnations > 1:
        roles = ()
    following = [r for r in roles if not r.leads and r.latest_t < lost.append_from]
    heard = max((r.leader_epoch for r in following), default=-1)
    leading = [r for r in roles if r.leads and r.latest_t <= lost.append_from]
    led = max((r.leader_epoch for r in leading), default=-1)
    found = []
    for epoch in _of_this_life(known):
        implied = epoch.leader is None
        begun = epoch.earliest_t is None or epoch.earliest_t <= lost.append_to
        ours = (epoch.leader == node or implied) and begun
        if ours and epoch.leader_epoch >= led and epoch.leader_epoch > heard:
            found.append(epoch)
    return found
