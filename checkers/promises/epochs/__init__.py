"""Epochs: does each only rise, and have one holder, and is every decision one that may be made?

What is committed of a partition (leader, leader epoch, in-sync set) is the work of controllers, and
every other promise takes it for the truth. Here it is judged itself, state by state in each life of
a topic (`checkers.facts.decisions`). With ZooKeeper its own log tells of each write in their one
order, so that nothing is missing and no clock matters.

Of two states in a row (KafkaController, ZkPartitionStateMachine, Election; without ZooKeeper
PartitionChangeBuilder):

- ``leader-epoch-went-back``, ``partition-epoch-went-back``;
- ``leader-epoch-jumped``: a leader epoch that does not begin at 0, or rises by more than one write
  allows, which is one;
- ``two-leaders-in-epoch``: one leader epoch with two leaders. Who makes a leader, or unmakes one
  (-1), always raises it; AlterPartition raises only the partition epoch;
- ``unclean-election``: a leader that was not in the in-sync set before it, nor among KRaft's
  eligible leader replicas (KIP-966), though the topic does not allow that;
- ``isr-grew-in-election``: an in-sync set that grew as the leader epoch rose. A controller only
  removes members, and whoever joins does so by AlterPartition, in the leader's epoch (with
  ZooKeeper; without, a reassignment may end in the very record in which a replica joins).

Of each state: ``leader-not-in-sync`` (the leader is in its own in-sync set), ``isr-empty`` (never:
the last member stays when it dies; without ZooKeeper KIP-966 lets it), ``twice-in-sync`` (a member
counts once towards min.insync.replicas), ``eligible-and-in-sync`` (KIP-966: eligible is who was in
sync last, and is no more), ``not-a-replica`` (leader
and in-sync set were assigned at some time), ``partition-made-twice`` (its znode was made twice in
one life of the topic, which forgets every epoch). Of topics: ``topic-vanished`` (it is gone, and
nobody had asked for its deletion; without ZooKeeper: it has another id), and of the run's own
``assigned-otherwise`` (it was made with other replicas, or in another order of preference, than
were asked for).

What those do who act on decisions, brokers and clients, is judged in `acting`:
``led-by-another`` (a broker leads, or follows, in a leader epoch that was committed for another, or
that ZooKeeper's own log, or the metadata log, never had), ``role-went-back`` (it takes up an older
leader epoch than it had, in one life), ``cached-otherwise`` (its metadata took in a leader and
leader epoch that were never committed together), ``in-sync-otherwise`` (a leader counts on an
in-sync set that was not committed with its partition epoch, or who does not lead on one),
``served-by-another`` (a client was served by a broker
as the leader of an epoch that was committed for another, or by one that had not been committed as
leader at all by then), ``acted-before-commit`` (`before_commit`). A forged
LeaderAndIsr or UpdateMetadata, with a lie that Kafka cannot see, is the forger's doing, and
counted.

Who answers for a partition that another leads, or denies it (``partition-denied``), once all is
calm: `in_anothers_place`. What copies of a metadata log say of one state (``copies-differ``):
`copies`.

Whose turn it was to lead, and elections for nothing: `elections`. Partitions that were left without
a leader (``left-without-leader``): `without_leader`; that never had one (``made-without-leader``):
`first_leaders`; that were allowed an unclean election in vain (``allowed-and-not-led``):
`unclean_allowed`. Elections of which a broker was never told
(``election-untold``, ``in-sync-untold``), or of its own part too late (``metadata-before-roles``):
`told_elections`. When a move of replicas may end: `moves`; one that was called off
(``called-off-in-vain``): `called_off`. Leaders that say that they are none (``leader-denies``):
`denials`.

Of a black box (nobody can read what it committed) only ``two-leaders-in-epoch`` and
``served-by-another`` are judged, by what its brokers showed.

Unknown: ZooKeeper's log lacks a write (a znode's version counts them), or does not have what a
watch saw or what was there in the end; copies of a metadata log lack a state (partition epochs
count them).

Who decided, and whether it was in office, is `succession`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.committed import committed
from checkers.facts.decisions import Decision, Life, from_copies, from_log, lives
from checkers.facts.leadership import SHOWN, Key, black_boxes, key_of, leadership
from checkers.facts.office import in_order, in_zookeeper, written
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.epochs.acting import ACKS, CACHED, IN_SYNC, ROLES, acting
from checkers.promises.epochs.before_commit import DATED, before_commit
from checkers.promises.epochs.called_off import CALLED_OFF, called_off
from checkers.promises.epochs.copies import COPIED, copies
from checkers.promises.epochs.denials import ASKED, denials
from checkers.promises.epochs.elections import ELECTIONS, elections
from checkers.promises.epochs.first_leaders import FIRST, first_leaders
from checkers.promises.epochs.in_anothers_place import OTHERS, in_anothers_place
from checkers.promises.epochs.moves import MOVED, moves
from checkers.promises.epochs.told_elections import IN_ORDER, TOLD, told_elections
from checkers.promises.epochs.unclean_allowed import ALLOWED, unclean_allowed
from checkers.promises.epochs.without_leader import LEADERLESS, without_leader

if TYPE_CHECKING:
    from checkers.history.frames import History

NO_LEADER: Final = -1
_UNSAID: Final = -1
_STATES: Final = "committed states"
Row = Mapping[str, Any]
Broken = Iterator[tuple[str, str]]
"""Rules and what is against them."""


def check(history: History) -> Outcome:
    outcome = Outcome()
    for key, of in sorted(lives(history).items()):
        outcome.saw(*key[:2], _STATES, sum(map(len, of)))
        zookeeper = key[:2] in in_zookeeper(history)
        unclean = history.run.topic(*key[:3]).unclean_leader_election
        for life in of:
            for finding in _life(life, zookeeper=zookeeper, unclean=unclean):
                outcome.add(finding)
    for finding in (
        *_made_twice(history),
        *_assigned(history),
        *_vanished(history),
        *_shown(history, outcome),
        *acting(history, outcome),
        *before_commit(history, outcome),
        *elections(history, outcome),
        *without_leader(history, outcome),
        *first_leaders(history, outcome),
        *unclean_allowed(history, outcome),
        *moves(history, outcome),
        *called_off(history, outcome),
        *told_elections(history, outcome),
        *denials(history, outcome),
        *in_anothers_place(history, outcome),
        *copies(history, outcome),
        *_made_anew(history),
    ):
        outcome.add(finding)
    for arm, trial, why in _lacking(history):
        outcome.unknown(arm, trial, why)
    for arm, trial in sorted(in_zookeeper(history) - from_log(history)):
        del trial
        outcome.unjudged(arm, "what only ZooKeeper's own log tells: assignments")
    for arm in sorted({key[0] for key in lives(history)} - {a for a, _ in in_zookeeper(history)}):
        outcome.unjudged(
            arm, "without ZooKeeper: assignments, and unclean elections where another joined"
        )
    for arm in black_boxes(history):
        outcome.unjudged(
            arm,
            "all of a decision but its leader and leader epoch: in-sync sets, partition epochs, "
            "epochs that jumped or went back (nobody tells what was committed)",
        )
    return outcome


def _shown(history: History, outcome: Outcome) -> Iterator[Finding]:
    """Of a black box only what its brokers showed is known: an epoch that was shown with two
    leaders was given to two, or a broker showed what never was."""
    for key, of in sorted(committed(history).items()):
        if not of.states or of.states[0].row["source"] != SHOWN:
            continue
        outcome.saw(*key[:2], _STATES, len(of.leaders))
        for epoch, leaders in sorted(of.leaders.items()):
            if len(leaders) < 2:
                continue
            first, second = sorted(leaders)[:2]
            at = {"topic": key[2], "partition": key[3], "leader_epoch": epoch}
            yield Finding(
                "two-leaders-in-epoch",
                f"brokers showed {_name(key)} with leaders {first} and {second} in leader epoch "
                f"{epoch}",
                *key[:2],
                (
                    Pick("leadership", {**at, "leader": first}, rows=1),
                    Pick("leadership", {**at, "leader": second}, rows=1),
                ),
            )


# -- states in a row ------------------------------------------------------------------------------


def _life(life: Life, *, zookeeper: bool, unclean: bool) -> Iterator[Finding]:
    leaders: dict[int, Decision] = {}
    for state in life:
        for rule, says in _alone(state, zookeeper=zookeeper):
            yield _finding(rule, says, state)
        first = leaders.setdefault(state.leader_epoch, state)
        if first.leader != state.leader:
            says = f"leaders {first.leader} and {state.leader} in leader epoch {state.leader_epoch}"
            yield _finding("two-leaders-in-epoch", says, state, first)
    for before, state in pairwise(life):
        for rule, says in _rises(before, state):
            yield _finding(rule, says, state, before)
        if state.partition_epoch == before.partition_epoch + 1:  # nothing was missed between
            for rule, says in _follows(before, state, zookeeper=zookeeper, unclean=unclean):
                yield _finding(rule, says, state, before)


def _alone(state: Decision, *, zookeeper: bool) -> Broken:
    leader, isr = state.leader, state.isr
    if state.partition_epoch == 0 and state.leader_epoch:
        yield "leader-epoch-jumped", f"leader epoch {state.leader_epoch} in its first state"
    twice = sorted({one for one in isr or () if (isr or ()).count(one) > 1})
    if twice:
        yield "twice-in-sync", f"in-sync set {list(isr or ())}, with {twice} more than once"
    both = sorted(set(isr or ()) & set(state.elr))
    if both:
        yield "eligible-and-in-sync", f"{both} both in sync and eligible without being so"
    if isr is not None and not isr and zookeeper:
        yield "isr-empty", "an empty in-sync set"
    if leader is not None and leader >= 0 and isr is not None and leader not in isr:
        yield "leader-not-in-sync", f"leader {leader}, which is not in its in-sync set {list(isr)}"
    if state.replicas is not None:
        named = {*(isr or ()), *([leader] if leader is not None and leader >= 0 else ())}
        strangers = sorted(named - state.replicas)
        if strangers:
            yield (
                "not-a-replica",
                f"leader {leader} and in-sync set {list(isr or ())}; {strangers} had no replica",
            )


def _rises(before: Decision, state: Decision) -> Broken:
    for name, old, new in (
        ("leader", before.leader_epoch, state.leader_epoch),
        ("partition", before.partition_epoch, state.partition_epoch),
    ):
        if new < old:
            yield f"{name}-epoch-went-back", f"{name} epoch {new} after {old}"


def _follows(before: Decision, state: Decision, *, zookeeper: bool, unclean: bool) -> Broken:
    """What one write may make of the state before it."""
    if state.leader_epoch > before.leader_epoch + 1:
        yield (
            "leader-epoch-jumped",
            f"leader epoch {state.leader_epoch} straight after {before.leader_epoch}",
        )
    if before.isr is None or state.isr is None or unclean:
        return
    elected = state.leader not in (None, NO_LEADER, before.leader)
    # Without ZooKeeper one record may end a reassignment, let a replica join and elect it.
    able = state.leader in (*before.isr, *before.elr)
    if elected and not able and (zookeeper or state.isr == (state.leader,)):
        yield (
            "unclean-election",
            f"leader {state.leader}, which was not in the in-sync set {list(before.isr)} before",
        )
    grown = sorted(set(state.isr) - set(before.isr))
    if zookeeper and state.leader_epoch > before.leader_epoch and grown:
        yield (
            "isr-grew-in-election",
            f"in-sync set {list(state.isr)} after {list(before.isr)}, as the leader epoch rose to "
            f"{state.leader_epoch}",
        )


def _made_twice(history: History) -> Iterator[Finding]:
    made: dict[Key, Row] = {}
    for row in in_order(history):
        if row["what"] == "topic" and row["step"] in ("created", "removed"):
            topic = (row["arm"], row["trial"], row["topic"])
            for key in [key for key in made if key[:3] == topic]:
                del made[key]
        elif row["what"] == "state" and row["step"] == "created" and row["topic"] is not None:
            key = key_of(row)
            if key in made:
                yield Finding(
                    "partition-made-twice",
                    f"the state of {key[2]}-{key[3]} was made again though its topic lived on",
                    *key[:2],
                    (written(made[key]), written(row)),
                )
            made[key] = row


def _assigned(history: History) -> Iterator[Finding]:
    """Whether topics were made as was asked for. What they are made into later is another thing."""
    seen: set[Key] = set()
    for row in in_order(history):
        if row["what"] != "topic" or row["step"] != "created" or row["partition"] is None:
            continue
        key = key_of(row)
        wanted = history.run.topic(*key[:3]).assignment.get(key[3])
        if wanted is None or key in seen:
            continue
        seen.add(key)
        if tuple(row["replicas"] or ()) != wanted:
            yield Finding(
                "assigned-otherwise",
                f"{key[2]}-{key[3]} was made with replicas {list(row['replicas'] or ())}; "
                f"{list(wanted)} were asked for",
                *key[:2],
                (written(row),),
            )


def _vanished(history: History) -> Iterator[Finding]:
    """Topics that went although nobody had asked for it, each once."""
    asked: dict[tuple[str, int, str], int] = {}
    gone: list[tuple[int, str, Row]] = []
    for step in history.rows("topic_deletion"):
        topic = (step["arm"], step["trial"], step["topic"])
        if step["step"] == "requested":
            first_t = step["t"] - (step["error_ns"] or 0)
            asked[topic] = min(first_t, asked.get(topic, first_t))
        elif step["step"] == "gone":
            gone.append((step["t"] + (step["error_ns"] or 0), "topic_deletion", step))
    for write in in_order(history):
        if (write["what"], write["step"]) == ("topic", "removed"):
            gone.append((write["t"] + (write["error_ns"] or 0), "zk_write", write))
    told: set[tuple[str, int, str]] = set()
    for gone_t, kind, row in gone:
        topic = (row["arm"], row["trial"], row["topic"])
        if topic in told or asked.get(topic, gone_t + 1) <= gone_t:
            continue
        told.add(topic)
        yield Finding(
            "topic-vanished",
            f"topic {topic[2]} is gone, and nobody had asked for its deletion",
            *topic[:2],
            (
                Pick("topic_deletion", {"topic": topic[2]}),
                Pick(kind, {"topic": topic[2]}, from_t=row["t"], rows=1),
            ),
        )


def _made_anew(history: History) -> Iterator[Finding]:
    """Topics that have another id, without ZooKeeper, although the harness, whose every request is
    told, had asked for no deletion, each once."""
    asked: dict[tuple[str, int, str], int] = {}
    telling: set[tuple[str, int]] = set()
    for row in history.rows("admin_request"):
        telling.add((row["arm"], row["trial"]))
        if row["api"] == "DELETE_TOPICS":
            topic = (row["arm"], row["trial"], row["about"])
            asked[topic] = min(row["invoke_t"], asked.get(topic, row["invoke_t"]))
    told: set[tuple[str, int, str]] = set()
    for key, of in sorted(leadership(history).items()):
        if key[:2] not in from_copies(history) & telling or key[:3] in told:
            continue
        late = [t for t in of.reborn_t if asked.get(key[:3], t) >= t]
        if late:
            told.add(key[:3])
            of_topic = {"topic": key[2]}
            yield Finding(
                "topic-vanished",
                f"topic {key[2]} has another id than before, and nobody had asked for its deletion",
                *key[:2],
                (
                    Pick("leadership", of_topic, to_t=late[0] - 1, last=True, rows=1),
                    Pick("leadership", of_topic, from_t=late[0], rows=1),
                ),
            )


def _lacking(history: History) -> Iterator[tuple[str, int, str]]:
    """Where ZooKeeper's own log, or what is known of a metadata log, cannot be whole."""
    for key, of in sorted(lives(history).items()):
        if key[:2] in from_copies(history):
            for before, state in (pair for life in of for pair in pairwise(life)):
                if state.partition_epoch > before.partition_epoch + 1:
                    says = f"partition epoch {before.partition_epoch} to {state.partition_epoch}"
                    yield *key[:2], f"the metadata log of {_name(key)} lacks states: {says}"
                    break
    logged = from_log(history)
    held: dict[Key, set[tuple[Any, ...]]] = {}
    for key, of in sorted(lives(history).items()):
        if key[:2] not in logged:
            continue
        held[key] = {
            (state.leader, state.leader_epoch, tuple(sorted(state.isr or ())))
            for life in of
            for state in life
        }
        for before, state in (pair for life in of for pair in pairwise(life)):
            if state.partition_epoch > before.partition_epoch + 1:
                says = f"partition epoch {before.partition_epoch} to {state.partition_epoch}"
                yield *key[:2], f"ZooKeeper's log of {_name(key)} lacks writes: {says}"
                break
    removed = {
        (row["arm"], row["trial"], row["topic"])
        for row in history.rows("zk_write")
        if (row["what"], row["step"]) == ("topic", "removed")
    }
    for step in history.rows("topic_deletion"):
        topic = (step["arm"], step["trial"], step["topic"])
        if step["step"] == "gone" and topic[:2] in logged and topic not in removed:
            yield *topic[:2], f"ZooKeeper's log does not have the removal of topic {topic[2]}"
    told = [row for row in history.rows("leadership") if row["source"] == "zk"]
    told += [row for row in history.rows("final_state") if row["what"] == "partition"]
    missed: set[Key] = set()
    for row in told:
        key = key_of(row)
        whole = None not in (row["topic"], row["leader_epoch"], row["isr"])
        if (
            whole
            and key[:2] in logged
            and key not in missed
            and _seen(row) not in held.get(key, ())
        ):
            missed.add(key)
            says = f"leader {row['leader']}, leader epoch {row['leader_epoch']}, ISR {row['isr']}"
            yield *key[:2], f"ZooKeeper's log of {_name(key)} does not have what was seen: {says}"


def _seen(row: Row) -> tuple[Any, ...]:
    return (row["leader"], row["leader_epoch"], tuple(sorted(row["isr"] or ())))


def _name(key: Key) -> str:
    return f"{key[2]}-{key[3]}"


# -- witnesses ------------------------------------------------------------------------------------


def _or(values: Iterable[int]) -> str:
    return " or ".join(str(value) for value in sorted(values))


def _at(row: Row) -> dict[str, Any]:
    return {"topic": row["topic"], "partition": row["partition"]}


def _finding(rule: str, says: str, state: Decision, *before: Decision) -> Finding:
    arm, trial, topic, partition = state.key
    says = f"{topic}-{partition} was given {says}, by controller epoch {state.controller_epoch}"
    return Finding(rule, says, arm, trial, tuple(one.pick for one in (*before, state)))


PROMISE: Final = Promise(
    name="epochs",
    says="Leader and partition epochs only rise, each has one holder, and no decision is made that "
    "may not be made.",
    source="KafkaController, ZkPartitionStateMachine, Election; KIP-497; KAFKA-6082",
    rules={
        "leader-epoch-went-back": "A partition's leader epoch never falls.",
        "partition-epoch-went-back": "A partition's partition epoch never falls.",
        "leader-epoch-jumped": "A leader epoch begins at 0 and rises one by one.",
        "two-leaders-in-epoch": "One leader epoch has one leader.",
        "unclean-election": "Leaders are elected from the in-sync set.",
        "isr-grew-in-election": "Controllers add nobody to an in-sync set.",
        "leader-not-in-sync": "A leader is in its own in-sync set.",
        "isr-empty": "An in-sync set keeps its last member.",
        "twice-in-sync": "An in-sync set has each member once.",
        "eligible-and-in-sync": "Who is in sync is not called eligible besides (KIP-966).",
        "copies-differ": "All copies of a metadata log say the same.",
        "not-a-replica": "Leaders and in-sync sets are assigned replicas.",
        "assigned-otherwise": "A topic is made with the replicas that were asked for.",
        "partition-made-twice": "A partition's state is made once in a topic's life.",
        "topic-vanished": "A topic goes only when its deletion was asked for.",
        "led-by-another": "Brokers lead and follow as was committed in that leader epoch.",
        "role-went-back": "A broker takes up newer leader epochs only.",
        "cached-otherwise": "Brokers' metadata takes in committed leaders only.",
        "in-sync-otherwise": "Leaders count on committed in-sync sets.",
        "acted-before-commit": "Nobody acts on a leader epoch that is not committed yet.",
        "served-by-another": "Only the leader of a leader epoch serves clients in it.",
        "elected-out-of-order": "The first assigned replica that lives and is in sync leads.",
        "moved-before-in-sync": "A move ends when all that it moves to are in sync.",
        "moved-while-in-sync": "Who is dropped by a move has left the in-sync set.",
        "moved-otherwise": "A move ends with the replicas that were asked for, in their order.",
        "called-off-in-vain": "A move that is called off leaves the replicas that there were.",
        "raised-for-nothing": "No leader epoch is raised for the same leader and in-sync set.",
        "left-without-leader": "Where somebody lives and is in sync, somebody leads.",
        "made-without-leader": "A new partition is led as soon as one of its replicas lives.",
        "allowed-and-not-led": "Who lives leads as soon as an unclean election is allowed.",
        "election-untold": "Who lives and has to know is told of each election.",
        "in-sync-untold": "Every live broker is told of each in-sync set.",
        "metadata-before-roles": "Who leads or follows is told so before clients may be.",
        "leader-denies": "Who leads does not answer that it does not.",
        "partition-denied": "Who does not lead a partition sends elsewhere, and does not deny it.",
    },
    evidence={
        _STATES: "states of partitions, each once",
        ELECTIONS: "far from reassignments, by ZooKeeper's log",
        LEADERLESS: "but as a controller comes into office, by ZooKeeper's log",
        FIRST: "with their topic or later, by ZooKeeper's log",
        ALLOWED: "by an operator, and by ZooKeeper's log",
        MOVED: "replicas that were there before were dropped, by ZooKeeper's log",
        CALLED_OFF: "and that was answered, by the harness",
        ROLES: "leaderships that brokers took up or followed",
        CACHED: "by broker, leader and leader epoch",
        IN_SYNC: "of which leaders told",
        DATED: "sent, led, followed, cached or shown",
        ACKS: "acknowledged, delivered, or a log's end told, to clients that say whom they asked",
        TOLD: "by broker and request, of controllers that number what they send",
        IN_ORDER: "by broker, of controllers that number what they send",
        ASKED: "by clients that say whom they asked",
        OTHERS: "by clients that say whom they asked",
        COPIED: "of partitions, by each node that has one",
    },
    unknown_when=(
        "ZooKeeper's log lacks a write, or does not have what was seen there",
        "copies of a metadata log lack a state",
    ),
    blind=(
        "the election of a broker that was dead, but in sync",
        "brokers' dynamic configurations: unclean elections allowed for a whole broker",
        "unclean elections that are asked for once nobody in sync lives: nobody does; and those "
        "that are allowed then for all topics of a broker",
        "two brokers that serve fetches in one leader epoch, or one after its time: consumers are "
        "not told who served them, nor in which epoch; and a leader that has not heard of its "
        "successor may serve what is committed",
        "clients that do not say which broker they asked, or in which leader epoch they believed",
        "a role that is taken up again in its own leader epoch",
        "what a LeaderAndIsr says beside leader, epochs, replicas and in-sync set: whether a "
        "partition is new, and its recovery",
        "whose turn it was near a reassignment, and the end of one that only adds replicas",
        "whom a controller that does not number what it tells (Apache Kafka's) told of elections",
        "without ZooKeeper: assignments, the order of replicas, and the state in the end",
    ),
    timed=frozenset(
        {
            *("election-untold", "in-sync-untold", "leader-denies", "partition-denied"),
            *("made-without-leader", "allowed-and-not-led"),
        }
    ),
    patient=frozenset({"made-without-leader", "allowed-and-not-led"}),
    check=check,
)
