"""What brokers refuse, in each version of a request that they serve: with the same error.

Most APIs have a top-level error by now, and had none before: an old client reads its error beside
each partition, or member, or thing that it named. If none stands there, it takes what is refused
for done, or what is not told for nothing: a position that another broker keeps for none. So once
the load has ended each running node is asked, in each version, for what it has to refuse, and the
errors of its answers are held against those of the newest version, wherever they stand.

Nothing is done by that, whoever answers: groups are asked by who is no member of them, records are
damaged, topics there are already, or there are none of that name.

Rows: as `harness.cluster.versions` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from faults.protocol import Link
from harness.cluster.ask import NoAnswer, ask, request, served
from harness.cluster.errors import StateUnreadable
from harness.cluster.versions import (
    NEVER_MADE,
    OFFSETS_TOPIC,
    Form,
    Question,
    record_compared,
)
from nodes.wire.apis import SUPPORTED, ApiKey
from nodes.wire.records import build_batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.cluster.cluster import Cluster

_TIMEOUT_S: Final = 10.0
_TIMEOUT_MS: Final = 1_000
"""What a request allows a controller: a refusal waits for nothing."""
_NAMES: Final = 12
"""So many groups are looked for, of which some are another's and one is its own."""
_NOBODY: Final = "a-member-that-never-was"
_GENERATION: Final = 7
_PROTOCOL: Final = {"protocol_type": "consumer", "protocol_name": "range"}
_BEYOND: Final = 2**62
_FETCH_BY_ID: Final = 13
"""From this version on a fetch names topics by their ids alone."""
OWN, ANOTHERS = "its own", "another's"
Partition = tuple[str, int]


def record_refusals(cluster: Cluster, topics: Sequence[str]) -> None:
    """A row for each form of each question to each running node, but the one that it is held
    against; none of a node that answers none."""
    every = cluster.view.partitions()
    states = [s for s in every if s.topic in topics]
    # Who asks for a coordinator where there is none yet has that topic made.
    has_groups = any(s.topic == OFFSETS_TOPIC for s in every)
    for node in cluster.node_ids:
        if not cluster.nodes.is_running(node):
            continue
        address = cluster.address(node, Link.CLIENT, direct=True)
        own = [(s.topic, s.partition) for s in states if s.leader == node]
        others = [(s.topic, s.partition) for s in states if s.leader not in (node, -1)]
        try:
            ranges = served(address, _TIMEOUT_S)
            groups = _groups(node, address, ranges) if has_groups else {}
        except (NoAnswer, StateUnreadable):
            continue  # judged by those who ask as clients do
        asked = refused(ranges, groups, own[:1], others[:1])
        record_compared(cluster, node, address, asked)


def _groups(
    node: int, address: tuple[str, int], ranges: Mapping[int, tuple[int, int]]
) -> dict[str, str]:
    """A group that nobody has made, of the node's own and of another coordinator's, as it says."""
    found: dict[str, str] = {}
    if ranges.get(ApiKey.FIND_COORDINATOR, (1, 0))[0]:
        return found
    for number in range(_NAMES):
        group = f"{NEVER_MADE}-{number}"
        answer = ask(address, request(ApiKey.FIND_COORDINATOR, 0, key=group), _TIMEOUT_S)
        if not int(answer.error_code):
            whose = OWN if int(answer.node_id) == node else ANOTHERS
            found.setdefault(whose, group)
    return found


def refused(
    ranges: Mapping[int, tuple[int, int]],
    groups: Mapping[str, str],
    own: Sequence[Partition],
    others: Sequence[Partition],
) -> Iterator[Question]:
    """``ranges``: of versions that are served, by API; ``groups``: by whose they are; ``own``,
    ``others``: partitions that the node leads, and that another does. Those in more than one
    version."""
    there = [*own, *others][:1]
    for question in (*_of_groups(groups, there), *_of_logs(own, others), *_of_topics(there)):
        low, high = ranges.get(question.api, (0, -1))
        forms = [form for form in question.forms if low <= form.version <= high]
        if len(forms) > 1:
            yield Question(api=question.api, about=question.about, forms=forms, refused=True)


def _question(
    api: ApiKey, about: str, fields: Mapping[str, Any], *, below: int = 2**15
) -> Question:
    """With these fields in all versions that can be written here, the newest first."""
    low, high = SUPPORTED[api]
    forms = [Form(v, fields) for v in range(min(high, below - 1), low - 1, -1)]
    return Question(api=api, about=f"refused: {about}", forms=forms)


def _of_groups(groups: Mapping[str, str], there: Sequence[Partition]) -> Iterator[Question]:
    """By a member that never was. ``there``: a partition, for what there is not nobody refuses to
    keep a position as no coordinator."""
    for whose, group in groups.items():
        of = f"of a group of {whose}"
        member = {"group_id": group, "member_id": _NOBODY, "generation_id": _GENERATION}
        yield _question(ApiKey.HEARTBEAT, f"a member {of}", member)
        yield _question(ApiKey.SYNC_GROUP, f"a member {of}", {**member, **_PROTOCOL})
        leaving = {"members": [{"member_id": _NOBODY, "group_instance_id": None}]}
        named = {"group_id": group, "member_id": _NOBODY}
        yield _question(ApiKey.LEAVE_GROUP, f"a member {of}", {**named, **leaving})
        for topic, partition in there:
            at = {"partition_index": partition, "committed_offset": 0, "committed_leader_epoch": -1}
            kept = {
                "generation_id_or_member_epoch": _GENERATION,
                "retention_time": -1,
                "topics": [{"name": topic, "partitions": [at]}],
            }
            yield _question(ApiKey.OFFSET_COMMIT, f"a position {of}", {**named, **kept})
    elsewhere = groups.get(ANOTHERS)
    if elsewhere is None:
        return
    one = {"group_id": elsewhere, "topics": [{"name": NEVER_MADE, "partition_indexes": [0, 1]}]}
    asked = {**one, "groups": [one], "require_stable": False}
    yield _question(ApiKey.DESCRIBE_GROUPS, f"a group of {ANOTHERS}", {"groups": [elsewhere]})
    yield _question(ApiKey.OFFSET_FETCH, f"positions of a group of {ANOTHERS}", asked)


def _of_logs(own: Sequence[Partition], others: Sequence[Partition]) -> Iterator[Question]:
    damaged = _damaged()
    of_whom = ((OWN, own), (ANOTHERS, others), ("nobody's", [(NEVER_MADE, 0)]))
    for whose, (topic, partition) in ((of, one) for of, each in of_whom for one in each):
        row = {"index": partition, "records": damaged}
        batch = {"topic_data": [{"name": topic, "partition_data": [row]}], "timeout": _TIMEOUT_MS}
        for acks in (1, -1):
            yield _question(
                ApiKey.PRODUCE,
                f"a damaged batch of {whose}, acks={acks}",
                {**batch, "transactional_id": None, "acks": acks},
            )
        rows = [{"partition_index": partition, "offset": _BEYOND}]
        yield _question(
            ApiKey.DELETE_RECORDS,
            f"a beginning of {whose}",
            {"topics": [{"name": topic, "partitions": rows}], "timeout": _TIMEOUT_MS},
        )
        if whose != OWN:
            at = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
            yield _question(
                ApiKey.LIST_OFFSETS,
                f"an end of {whose}",
                {"replica_id": -1, "topics": [{"name": topic, "partitions": [at]}]},
            )
        else:
            # A follower may be read from, since Fetch 11; and 2.1 takes what there is not for
            # compressed by zstd, of which it tells no older client.
            fetch = _fetch(topic, partition)
            yield _question(ApiKey.FETCH, f"records of {whose}", fetch, below=_FETCH_BY_ID)


def _fetch(topic: str, partition: int) -> dict[str, Any]:
    at = {"fetch_offset": _BEYOND, "partition_max_bytes": 1, "log_start_offset": -1}
    at |= {"last_fetched_epoch": -1, "current_leader_epoch": -1, "partition": partition}
    return {
        **{"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1, "isolation_level": 0},
        **{"session_id": 0, "session_epoch": -1},
        "topics": [{"topic": topic, "partitions": [at]}],
    }


def _of_topics(there: Sequence[Partition]) -> Iterator[Question]:
    """Of a controller; who is none says so."""
    once = {"timeout": _TIMEOUT_MS, "validate_only": True}
    for topic, _ in there:
        made = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        again = {**made, "assignments": [], "configs": []}
        yield _question(ApiKey.CREATE_TOPICS, "a topic again", {**once, "topics": [again]})
        fewer = {"name": topic, "count": 1, "assignments": None}
        yield _question(ApiKey.CREATE_PARTITIONS, "no more partitions", {**once, "topics": [fewer]})
    named = {"topics": [{"name": NEVER_MADE, "topic_id": None}], "topic_names": [NEVER_MADE]}
    gone = {**named, "timeout": _TIMEOUT_MS}
    yield _question(ApiKey.DELETE_TOPICS, "the end of no topic", gone)


def _damaged() -> bytes:
    batch = bytearray(build_batch([(b"k", b"nobody sent this", 0)]))
    batch[-2] ^= 0xFF
    return bytes(batch)
