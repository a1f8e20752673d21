"""Whole metadata: does every broker answer, name what exists and nothing else, and the controller?

`shown-metadata` judges what is shown of a partition; here is whether it is shown, and the rest of
an answer. At any time, for nothing lawful brings it about:

- ``metadata-forgot``: a topic or partition that the same broker had named earlier in the same life,
  and whose deletion nobody had requested. A broker's cache drops a partition for nothing else;
- ``metadata-still-names``: a deleted topic, at a broker that had a replica of it. Such a broker is
  told of the deletion before its replicas are stopped, and the topic is gone only after that;
- ``metadata-ghost``: a partition that ZooKeeper's own log never had, or had not by then: what a
  controller makes it writes before it tells of it;
- ``controller-never-elected``, ``controller-went-back``: a controller that was never elected; or
  only in controller epochs older than that of one named before, whose word binds (with ZooKeeper:
  without, brokers name any broker). None (-1) is lawful: so begins each life;
- ``controller-forgotten``: none, after one was named in the same life;
- ``controller-of-the-past``: one that was replaced before the broker began (`past_controllers`);
- ``live-broker-forgotten``: one less who lives than before (`forgotten_brokers`);

Once all is calm (`checkers.facts.calm`: what is judged was asked for later than a broker may take
after healing, after its own return, and after the commit):

- ``metadata-forgot``, ``metadata-still-names``: by any broker. Before that, a broker that has just
  started knows nothing yet, and one without replicas hears of a deletion when its turn comes;
- ``controller-superseded``: a controller that has a successor;
- ``controller-unknown``: none, though one is in office;
- ``live-broker-unnamed``, ``live-broker-offline`` (and, at any time, ``stranger-named`` and
  ``named-elsewhere``): the live brokers that answers name, and where
  (`named_brokers`; of who is named as controller as well, where there is no ZooKeeper);
- ``metadata-mute``: a live broker that answered no read for as long as that, though asked anew
  after healing, while others did. A read or a connection that hung in a fault may hang on.

Unknown: a broker of the cluster that never answered in a trial; one that was silent after healing
for too short a time to be held against it; one whose answers leave open who the controller is,
though others' tell it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checkers.facts.answers import Named, Node, Topic, deletion_steps, hosts, named
from checkers.facts.calm import Debts, brokers
from checkers.facts.committed import committed
from checkers.facts.decisions import from_log
from checkers.facts.forgeries import forgeries
from checkers.facts.leadership import Key, black_boxes
from checkers.facts.office import Election, elections, in_zookeeper
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.whole_metadata.forgotten_brokers import RULE as FORGOTTEN
from checkers.promises.whole_metadata.forgotten_brokers import forgotten_brokers
from checkers.promises.whole_metadata.named_brokers import (
    ADDRESSES,
    LISTS,
    lied,
    named_addresses,
    named_brokers,
    named_offline,
)
from checkers.promises.whole_metadata.past_controllers import of_the_past, starts

if TYPE_CHECKING:
    from checkers.history.frames import History

HUNG_NS: Final = 10_000_000_000
"""A reader waits so long for an answer, and half as long for a connection, before it tries anew."""
GONE_SLACK_NS: Final = 1_000_000
"""ZooKeeper dates a write to the millisecond."""
UNTOLD_SHARE: Final = 0.25
"""Of a broker's answers: where more do not say who the controller is, too little was judged."""
NOBODY: Final = -1
_ANSWERS: Final = "answers about a topic"
_HEARD: Final = "brokers heard"


def check(history: History) -> Outcome:
    outcome = Outcome()
    told = named(history)
    for one in told:
        outcome.saw(*one.topic[:2], _ANSWERS, one.n)
    judge = _Judge(history, outcome, told)
    for rule in (
        *(judge.forgotten, judge.still_named, judge.ghosts),
        *(judge.controllers, judge.replaced, judge.silent),
    ):
        for finding in rule():
            outcome.add(finding)
    if history.has("metadata"):
        for finding in (
            *named_brokers(history, outcome),
            *named_offline(history, outcome),
            *named_addresses(history, outcome),
            *forgotten_brokers(history, outcome, judge.forged),
        ):
            outcome.add(finding)
    return outcome


class _Judge:
    """One history's answers. One thread."""

    def __init__(self, history: History, outcome: Outcome, told: list[Named]) -> None:
        self._history, self._outcome, self._told = history, outcome, told
        self._committed, self._steps = committed(history), deletion_steps(history)
        self._end: dict[tuple[str, int], int] = {}
        for one in told:
            trial = one.topic[:2]
            self._end[trial] = max(self._end.get(trial, 0), one.last_t)
        self._debts = Debts(history, self._end)
        self._created: dict[Topic, set[int]] = {}
        for key in self._committed:
            self._created.setdefault(key[:3], set()).add(key[3])
        self._newest_ms = _newest_ms(history)

    def _excused(self, one: Named, rule: str) -> bool:
        """By a forger who had turned the broker against its controller."""
        deaf = self._debts.deaf(one.broker, one.last_invoke_t)
        if deaf:
            self._outcome.excuse(*one.topic[:2], rule, "forged", of=_ANSWERS, n=one.n)
        return deaf

    def forged(self, broker: Node, asked_t: int) -> bool:
        """Whether a broker's list of brokers may be a forger's."""
        may = broker in lied(self._history) or self._debts.deaf(broker, asked_t)
        if may:
            self._outcome.excuse(*broker[:2], FORGOTTEN, "forged", of=LISTS)
        return may

    # -- what exists ----------------------------------------------------------------------------

    def forgotten(self) -> Iterator[Finding]:
        """Before anybody asked for a topic's deletion. Of its namesakes only `still_named` tells:
        whether one is there yet cannot be told read by read."""
        places: dict[tuple[Topic, int, int], list[Named]] = {}
        for one in self._told:
            if one.life is not None and one.era == 0 and self._exists(one.topic):
                places.setdefault((one.topic, one.node, one.life), []).append(one)
        for (topic, _, _), of in sorted(places.items()):
            known = frozenset[int]().union(*(one.partitions for one in of))
            for partition in sorted(known | self._created.get(topic, set())):
                yield from self._forgot((*topic, partition), of)

    def _exists(self, topic: Topic) -> bool:
        """Without ZooKeeper nobody tells of deletions; a run's own topics are never deleted."""
        run = self._history.run
        own = topic in run.topics or topic[2] in run.topics_everywhere
        return own or topic[:2] in in_zookeeper(self._history)

    def _forgot(self, key: Key, of: list[Named]) -> Iterator[Finding]:
        """At most one answer of this life of the broker that does not name the partition."""
        lacking = [one for one in of if key[3] not in one.partitions]
        named_t = min((one.first_t for one in of if key[3] in one.partitions), default=None)
        for one in lacking:
            if named_t is not None and one.last_invoke_t > named_t:
                says = f"did not name {key[2]}-{key[3]} although it had named it before"
                yield _about_topic("metadata-forgot", says, one, key[3], named_t)
                return
        seen = self._committed.get(key)
        if seen is None or key[:3] in self._steps:
            return
        for one in lacking:
            owed_t = self._debts.owed_from(one.broker, seen.first_t)
            late = owed_t is not None and one.last_invoke_t > owed_t
            if owed_t is not None and late and not self._excused(one, "metadata-forgot"):
                says = f"did not name {key[2]}-{key[3]}, created long before, all healed"
                yield _about_topic("metadata-forgot", says, one, key[3], owed_t)
                return

    # -- what does not --------------------------------------------------------------------------

    def still_named(self) -> Iterator[Finding]:
        for one in self._told:
            steps = self._steps.get(one.topic, [])
            if not one.era or one.era != len(steps) or not one.partitions:
                continue
            if steps[-1]["step"] != "gone" or self._reborn(one.topic):
                continue
            gone_t = steps[-1]["t"] + (steps[-1]["error_ns"] or 0) + GONE_SLACK_NS
            owed_t: int | None = gone_t
            if one.node not in hosts(self._history, one.topic, one.era):
                owed_t = self._debts.owed_from(one.broker, gone_t)
            if owed_t is None or one.last_invoke_t <= owed_t or self._forged(one):
                continue
            late_ms = (one.last_invoke_t - gone_t) / 1e6
            yield _about_topic(
                "metadata-still-names",
                f"named {len(one.partitions)} partitions of topic {one.topic[2]} {late_ms:.0f} ms "
                "after it was gone",
                one,
                min(one.partitions),
                one.last_invoke_t,
                Pick("topic_deletion", {"topic": one.topic[2]}, last=True),
            )

    def ghosts(self) -> Iterator[Finding]:
        """What never was, or was not yet: the whole log says so, whenever it was read."""
        logged = from_log(self._history)
        there: dict[Topic, dict[int, int]] = {}
        for row in self._history.rows("zk_write"):
            if row["topic"] is not None and row["partition"] is not None:
                topic = (row["arm"], row["trial"], row["topic"])
                since_t = row["t"] - (row["error_ns"] or 0) - GONE_SLACK_NS
                of = there.setdefault(topic, {})
                of[row["partition"]] = min(since_t, of.get(row["partition"], since_t))
        for one in self._told:
            if one.topic[:2] not in logged:
                continue
            since = there.get(one.topic, {})
            never = one.partitions - since.keys() - self._created.get(one.topic, set())
            early = {p for p in one.partitions if since.get(p, one.first_t) > one.first_t}
            if (never or early) and not self._forged(one, "metadata-ghost"):
                strange = min(never or early)
                then = "never was" if never else "was not yet"
                says = f"named {one.topic[2]}-{strange}, which {then}"
                at_t = one.last_t if never else one.first_t
                yield _about_topic("metadata-ghost", says, one, strange, at_t)

    def _reborn(self, topic: Topic) -> bool:
        """Whether a namesake was created after the topic's last deletion."""
        return self._newest_ms.get(topic, 0) > (self._steps[topic][-1]["commit_ms"] or 0)

    def _forged(self, one: Named, rule: str = "metadata-still-names") -> bool:
        """Whether a forger may have told this broker of the topic."""
        told = forgeries(self._history).told
        spans = [s for p in one.partitions for s in told.get(((*one.topic, p), one.node), ())]
        forged = any(span.from_t <= one.last_t for span in spans)
        if forged:
            self._outcome.excuse(*one.topic[:2], rule, "forged", of=_ANSWERS, n=one.n)
        return forged or self._excused(one, rule)

    # -- the controller -------------------------------------------------------------------------

    def _strangers(self) -> Iterator[Finding]:
        """Who was named, and never was. Without ZooKeeper it may be any broker that lives, for who
        hands on what he is asked for (KIP-590, KRaftMetadataCache.getRandomAliveBrokerId)."""
        known, strange = brokers(self._history), black_boxes(self._history)
        found: dict[tuple[Node, int], Named] = {}
        for one in self._told:
            trial, whom = one.topic[:2], one.controller_id
            if trial in in_zookeeper(self._history) or trial[0] in strange:
                continue
            if whom is not None and whom != NOBODY and whom not in known.get(trial, {whom}):
                found.setdefault((one.broker, whom), one)
        for _, one in sorted(found.items()):
            yield _about_controller("stranger-named", "which never was", one, None)

    def controllers(self) -> Iterator[Finding]:
        yield from self._strangers()
        self._unnamed()
        lives: dict[tuple[Node, int], dict[int, list[Named]]] = {}
        for one in self._told:
            zookeeper = one.topic[:2] in in_zookeeper(self._history)
            if zookeeper and one.life is not None and one.controller_id is not None:
                of = lives.setdefault((one.broker, one.life), {})
                of.setdefault(one.controller_id, []).append(one)
        for (broker, _), of in sorted(lives.items()):
            elected = elections(self._history).get(broker[:2], [])
            if not elected:
                what = "the controllers that brokers named: nobody told of an election"
                self._outcome.unjudged(broker[0], what)
                continue
            for controller_id, answers in of.items():
                last = max(answers, key=lambda one: one.last_invoke_t)
                if controller_id == NOBODY:
                    yield from self._nobody(last, elected)
                else:
                    yield from self._controller(last, elected)
            yield from _went_back(of, elected)
            yield from _unheard_of(of, elected)

    def replaced(self) -> Iterator[Finding]:
        zookeeper, elected = in_zookeeper(self._history), elections(self._history)
        own = [one for one in self._told if one.topic[:2] in zookeeper]
        for one, newer in of_the_past(own, starts(self._history), elected, self._excused):
            says = (
                f"who had been replaced by node {newer.node}, elected with controller epoch "
                f"{newer.controller_epoch}, before it began"
            )
            yield _about_controller("controller-of-the-past", says, one, newer)

    def _unnamed(self) -> None:
        """Brokers that leave it open whom they take for the controller, where others say it."""
        asked: Counter[Node] = Counter()
        untold: Counter[Node] = Counter()
        telling = {one.topic[:2] for one in self._told if one.controller_id is not None}
        for one in self._told:
            if one.topic[:2] in telling and one.topic[:2] in in_zookeeper(self._history):
                asked[one.broker] += one.n
                untold[one.broker] += one.n if one.controller_id is None else 0
        for broker, n in sorted(untold.items()):
            if n > UNTOLD_SHARE * asked[broker]:
                says = f"{n} of node {broker[2]}'s {asked[broker]} answers do not tell of a"
                self._outcome.unknown(*broker[:2], f"{says} controller, as others do")

    def _nobody(self, one: Named, elected: list[Election]) -> Iterator[Finding]:
        owed_t = self._debts.owed_from(one.broker, elected[-1].t)
        late = owed_t is not None and one.last_invoke_t > owed_t
        if late and not self._excused(one, "controller-unknown"):
            says = (
                f"long after node {elected[-1].node} was elected with controller epoch "
                f"{elected[-1].controller_epoch} and all was healed"
            )
            yield _about_controller("controller-unknown", says, one, elected[-1])

    def _controller(self, one: Named, elected: list[Election]) -> Iterator[Finding]:
        mine = [e for e in elected if e.node == one.controller_id]
        if not mine:
            rule = "controller-never-elected"
            yield _about_controller(rule, "which was never elected", one, None)
            return
        newer = [e for e in elected if e.controller_epoch > mine[-1].controller_epoch]
        owed_t = self._debts.owed_from(one.broker, newer[0].t) if newer else None
        late = owed_t is not None and one.last_invoke_t > owed_t
        if late and not self._excused(one, "controller-superseded"):
            yield _about_controller(
                "controller-superseded",
                f"long after node {newer[0].node} was elected with controller epoch "
                f"{newer[0].controller_epoch} and all was healed",
                one,
                newer[0],
            )

    # -- silence --------------------------------------------------------------------------------

    def silent(self) -> Iterator[Finding]:
        heard: dict[Node, int] = {}
        for one in self._told:
            heard[one.broker] = max(heard.get(one.broker, 0), one.last_t)
        for trial, nodes in sorted(self._cluster().items()):
            for node in sorted(nodes):
                broker: Node = (*trial, node)
                if broker not in heard:
                    self._outcome.unknown(*trial, f"node {node} never answered a metadata read")
                    continue
                self._outcome.saw(*trial, _HEARD)
                yield from self._silent(broker, heard[broker])

    def _cluster(self) -> dict[tuple[str, int], set[int]]:
        """The brokers of each trial in which anybody read."""
        known = brokers(self._history)
        found = {trial: set(known.get(trial, ())) for trial in self._end}
        for one in self._told:
            found[one.topic[:2]].add(one.node)
        return found

    def _silent(self, broker: Node, heard_t: int) -> Iterator[Finding]:
        calm, now = self._debts.calm(broker[:2]), self._debts.standing(broker)
        end_t = self._end[broker[:2]]
        if calm is None or not now.up:
            return
        healed_t = max(calm.healed_t, now.since_t)
        quiet_from = max(healed_t, heard_t)
        mute = end_t - quiet_from >= calm.needed_ns
        asked_t = self._asked_anew(broker, quiet_from) if mute else None
        # Asked anew or not: what hung in a fault has come to its end by then.
        since = quiet_from + HUNG_NS if asked_t is None else asked_t
        if end_t - since >= calm.needed_ns:
            yield _muted(broker, since, end_t)
        elif heard_t < healed_t:
            why = f"node {broker[2]} answered no metadata read after all was healed"
            self._outcome.unknown(*broker[:2], why)

    def _asked_anew(self, broker: Node, since_t: int) -> int | None:
        """When the first read after ``since_t`` was sent to this broker."""
        from pyspark.sql import functions as F

        arm, trial, node = broker
        reads = self._history.frame("metadata").where(
            (F.col("arm") == arm) & (F.col("trial") == trial) & (F.col("node") == node)
        )
        row = reads.where(F.col("invoke_t") > since_t).agg(F.min("invoke_t").alias("t")).first()
        return None if row is None else row["t"]


def _newest_ms(history: History) -> dict[Topic, int]:
    """By topic, when anything of it was written last that was no removal (ZooKeeper's wall ms)."""
    found: dict[Topic, int] = {}
    for kind in ("leadership", "zk_write"):
        for row in history.rows(kind):
            if row["topic"] is not None and row.get("step") != "removed":
                topic = (row["arm"], row["trial"], row["topic"])
                found[topic] = max(found.get(topic, 0), row["commit_ms"] or 0)
    return found


def _went_back(of: dict[int, list[Named]], elected: list[Election]) -> Iterator[Finding]:
    """Whoever took in a controller's word refuses those of older epochs from then on."""
    spans = {
        node: [e.controller_epoch for e in elected if e.node == node]
        for node in of
        if any(e.node == node for e in elected)
    }
    for new, newer in spans.items():
        named_t = min(one.first_t for one in of[new])
        for old, older in spans.items():
            last = max(of[old], key=lambda one: one.last_invoke_t)
            if max(older) < min(newer) and last.last_invoke_t > named_t:
                yield _about_controller(
                    "controller-went-back",
                    f"after it had named node {new}, elected with controller epoch {min(newer)}",
                    last,
                    next(e for e in elected if e.controller_epoch == min(newer)),
                )


def _unheard_of(of: dict[int, list[Named]], elected: list[Election]) -> Iterator[Finding]:
    """Whoever took in a controller's word knows of one for as long as it lives: it may hear of
    another, and never of none."""
    heard = {node: min(one.first_t for one in of[node]) for node in of if node != NOBODY}
    nobody = max(of.get(NOBODY, ()), key=lambda one: one.last_invoke_t, default=None)
    if nobody is None or not heard:
        return
    first = min(heard, key=lambda node: heard[node])
    if nobody.last_invoke_t > heard[first]:
        says, whose = f"after it had named node {first}", [e for e in elected if e.node == first]
        yield _about_controller("controller-forgotten", says, nobody, next(iter(whose), None))


def _about_topic(
    rule: str, says: str, one: Named, partition: int, from_t: int, *more: Pick
) -> Finding:
    arm, trial, topic = one.topic
    mine = {"topic": topic, "node": one.node}
    picks = (
        *more,
        Pick("leadership", {"topic": topic, "partition": partition}, rows=1),
        Pick("metadata", {**mine, "partition": partition}, to_t=from_t, rows=1, last=True),
        Pick("metadata", mine, from_t=one.last_t, to_t=one.last_t, rows=2),
    )
    return Finding(rule, f"node {one.node} {says}", arm, trial, picks)


def _about_controller(rule: str, says: str, one: Named, successor: Election | None) -> Finding:
    arm, trial, topic = one.topic
    answer = {"topic": topic, "node": one.node, "controller_id": one.controller_id}
    picks = [Pick("metadata", answer, from_t=one.last_t, to_t=one.last_t, rows=1)]
    if successor is not None:
        wanted = {"controller_epoch": successor.controller_epoch}
        picks += [
            Pick("controller", wanted, rows=1),
            Pick("zk_write", {**wanted, "what": "controller_epoch"}, rows=1),
        ]
    whom = "nobody" if one.controller_id == NOBODY else f"node {one.controller_id}"
    says = f"node {one.node} named {whom} as controller, {says}"
    return Finding(rule, says, arm, trial, tuple(picks))


def _muted(broker: Node, from_t: int, end_t: int) -> Finding:
    arm, trial, node = broker
    return Finding(
        "metadata-mute",
        f"node {node} answered no metadata read in the last {(end_t - from_t) / 1e9:.1f} s, all "
        "healed, while others did",
        arm,
        trial,
        (
            Pick("node_event", {"node": node}, rows=1, last=True),
            Pick("fault", {"phase": "healed"}, rows=1, last=True),
            Pick("metadata", {"node": node, "type": "ok"}, rows=1, last=True),
            Pick("metadata", {"node": node, "type": "info"}, rows=1, last=True),
            Pick("metadata", {"type": "ok"}, rows=1, last=True),
        ),
    )


PROMISE: Final = Promise(
    name="whole-metadata",
    says="Every live broker answers, names all topics that exist and none that is gone, and the "
    "controller in office.",
    source="Kafka's MetadataCache and UpdateMetadata; TopicDeletionManager",
    rules={
        "metadata-forgot": "A broker names every topic and partition that exists.",
        "metadata-still-names": "A broker does not name a topic that is gone.",
        "metadata-ghost": "A broker names only what was created.",
        "controller-unknown": "Every live broker names a controller.",
        "metadata-mute": "A live broker answers.",
        "controller-never-elected": "The controller that a broker names was elected.",
        "controller-superseded": "Every live broker hears of a new controller.",
        "stranger-named": "A broker names as live, or as controller, only what was a broker.",
        "named-elsewhere": "A broker sends clients to where brokers answer them.",
        "live-broker-unnamed": "Every live broker names all live brokers, once all is calm.",
        FORGOTTEN: "A broker goes on naming who goes on living.",
        "live-broker-offline": "No replica on who lives is called offline, once all is calm.",
        "controller-went-back": "A broker that heard a controller names none of the past.",
        "controller-forgotten": "A broker that heard a controller goes on naming one.",
        "controller-of-the-past": "A broker names nobody who was replaced before it began.",
    },
    evidence={
        _ANSWERS: "metadata answers of one broker about one topic",
        _HEARD: "brokers that answered a metadata read",
        LISTS: "of systems and readers that tell of them",
        ADDRESSES: "of brokers, as answers name them, of which somebody asked each by itself",
    },
    unknown_when=(
        "a broker never answered a metadata read",
        "a broker answered none after healing, and too little time was left to judge it by",
        "a broker's answers leave open who the controller is, and others' do not",
    ),
    blind=(
        "how long a broker that answers takes to",
        "what a broker forgot of a namesake of a deleted topic",
        "what a registration says to who knows of no listeners (host, port, JMX port), and what is "
        "told to who asks on a control plane's listener",
        "topics that a broker makes because somebody asks for them",
        "without ZooKeeper: the controller named, and topics and brokers that are gone",
        "histories of before deletions' hosts were recorded: who had a replica of a deleted topic",
    ),
    timed=frozenset(
        {
            "metadata-forgot",
            "metadata-still-names",
            "controller-unknown",
            "metadata-mute",
            "controller-superseded",
            "live-broker-unnamed",
            "live-broker-offline",
        }
    ),
    patient=frozenset(
        {"metadata-forgot", "metadata-still-names", "controller-unknown", "live-broker-offline"}
    ),
    check=check,
)
