"""A client's life in each version of what it asks for, once the load has ended.

Requests that change something a client speaks in one version, whichever it is of: clients here are
librdkafka's and the harness's own, and speak old ones, so that a broker that turns Java's newest
away would look sound. What is only looked at is asked for in every version
(`harness.cluster.versions`); here somebody lives through the rest of them. As member of a group of
its own: it joins, is given what it assigns, says that it lives, keeps a position, is told it,
leaves, is known no more, and its group goes. As writer of a topic of its own: its records are
appended one after the other, and deleted again.

Each life is told in words, `WHOLE` when all of it came about as it was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from harness.cluster.ask import error_name, request
from harness.cluster.operations import ELSEWHERE
from harness.workload.member_words import subscription
from nodes.wire.apis import SUPPORTED, ApiKey
from nodes.wire.client import Connection, RequestTimedOut, WireClientError
from nodes.wire.codec import WireError
from nodes.wire.records import build_batch

WHOLE: Final = "all that was asked for"
MEMBERS: Final = ApiKey.JOIN_GROUP
"""Stands for all that members ask for."""
WRITERS: Final = (ApiKey.PRODUCE, ApiKey.DELETE_RECORDS)
_SESSION_MS: Final = 10_000
_TIMEOUT_MS: Final = 8_000
_GIVEN, _NOTE = b"what it is given", "a note"
_POSITION: Final = 7
_NOBODY: Final = "a-member-that-never-was"
"""Where several may leave with one request (KIP-345) it leaves beside this one, and each is
answered by itself."""
_LEAVE_TOGETHER: Final = 3
_FETCH_GROUPS: Final = 8
_WITH_PROTOCOL: Final = 7
"""From this version on who joins is told of which type its group's protocol is."""
_WITH_START: Final = 5
"""From this version on who writes is told where the log begins."""
_BEGINS: Final = "it writes, beginning"
"""So is told that a record was taken, at the right place, and where the log begins otherwise."""
_NONE, _UNKNOWN_MEMBER_ID, _REBALANCE_IN_PROGRESS, _MEMBER_ID_REQUIRED = 0, 25, 27, 79
_JOINS: Final = 3
"""So often who is told that its group is rebalanced joins it in all. A coordinator says so, too, if
the group was not written in time (GroupMetadataManager.storeGroup): by a follower that was slow, or
because it was woken while its group's lock was held (KAFKA-8334, up to 2.6)."""
_UNWRITTEN_NS: Final = 1_000_000_000
"""What is said sooner than that is not said of a write that was waited for
(offsets.commit.timeout.ms, 5 s); nobody else is in the group."""
_LOST: Final = (RequestTimedOut,)
_CLOSED: Final = (WireClientError, WireError, OSError)
Served = Mapping[int, tuple[int, int]]
"""By API key: the lowest and the highest version."""


class Elsewhere(Exception):
    """Not here, or not now: nothing can be told."""


class _Otherwise(Exception):
    """The text says what came about otherwise than it was asked for."""


def versions(served: Served, api: ApiKey) -> range:
    """Those that are served, and that can be written here."""
    (low, high), (served_low, served_high) = SUPPORTED[api], served.get(api, (0, -1))
    return range(max(low, served_low), min(high, served_high) + 1)


def member_lives(
    connect: Callable[[str], Connection],
    served: Served,
    group: str,
    topic: str,
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> Iterator[tuple[int, str]]:
    """Version of JoinGroup, and what came of a life in it, and in what was current with it: a
    version so much older of everything. ``connect``: to who coordinates that group; ``topic``: one
    with a partition 0. All live at once, for a coordinator waits for others to join (KIP-134).
    Raises `Elsewhere`."""
    of = list(reversed(versions(served, MEMBERS)))

    def live(age: int) -> str:
        own = f"{group}-{of[age]}"
        with connect(own) as connection:
            return _told(_Member(connection, served, own, topic, age, now_ns).live)

    with ThreadPoolExecutor(max(1, len(of))) as pool:
        yield from zip(of, pool.map(live, range(len(of))), strict=True)


def writer_lives(
    connect: Callable[[], Connection], served: Served, topic: str
) -> Iterator[tuple[ApiKey, int, str]]:
    """What came of a record in each version, and of its deletion in each, in partition 0 of a topic
    that is empty, and that nobody else writes to. Raises `Elsewhere`."""
    end = 0
    for version in versions(served, ApiKey.PRODUCE):
        with connect() as connection:
            told = _told(partial(_write, connection, version, topic, end))
        end += told == WHOLE or told.startswith(_BEGINS)
        yield ApiKey.PRODUCE, version, told
    for start, version in zip(
        range(1, end + 1), versions(served, ApiKey.DELETE_RECORDS), strict=False
    ):
        with connect() as connection:
            told = _told(partial(_delete, connection, version, topic, start))
        yield ApiKey.DELETE_RECORDS, version, told


def _told(live: Callable[[], None]) -> str:
    try:
        live()
    except _Otherwise as otherwise:
        return str(otherwise)
    except _LOST as error:
        raise Elsewhere from error
    except _CLOSED as error:
        return f"no answer: {type(error).__name__}"
    return WHOLE


def _is(what: str, told: Any, wanted: Any) -> None:
    if told != wanted:
        raise _Otherwise(f"{what}: {told!r}, not {wanted!r}")


def _has(step: str, error: Any, wanted: int = _NONE) -> None:
    if int(error) in ELSEWHERE:
        raise Elsewhere
    _is(f"{step}, error", error_name(int(error)), error_name(wanted))


class _Member:
    """``age``: by how many versions what it speaks is older than the newest."""

    def __init__(
        self,
        connection: Connection,
        served: Served,
        group: str,
        topic: str,
        age: int,
        now_ns: Callable[[], int],
    ) -> None:
        self._connection, self._served, self._now_ns = connection, served, now_ns
        self._group, self._topic, self._age = group, topic, age
        self._id, self._generation = "", -1

    def live(self) -> None:
        for joins in range(1, _JOINS + 1):
            self._join()
            if self._sync(is_last=joins == _JOINS):
                break
        _has("it lives", self._ask(ApiKey.HEARTBEAT, **self._who()).error_code)
        self._keep()
        self._leave()
        gone = self._ask(ApiKey.HEARTBEAT, **self._who()).error_code
        _has("it lives on", gone, _UNKNOWN_MEMBER_ID)
        (ended,) = self._ask(ApiKey.DELETE_GROUPS, groups_names=[self._group]).results
        _has("its group goes", ended.error_code)

    def _version(self, api: ApiKey) -> int:
        known = versions(self._served, api)
        if not known:
            raise Elsewhere
        return known[max(0, len(known) - 1 - self._age)]

    def _ask(self, api: ApiKey, **fields: Any) -> Any:
        return self._connection.request(request(api, self._version(api), **fields))

    def _who(self) -> dict[str, Any]:
        named = {"group_id": self._group, "member_id": self._id, "group_instance_id": None}
        return {**named, "generation_id": self._generation}

    def _join(self) -> None:
        protocol = {"name": "range", "metadata": subscription(self._topic)}
        asked = {
            **{"group_id": self._group, "group_instance_id": None, "reason": None},
            **{"session_timeout": _SESSION_MS, "rebalance_timeout": _SESSION_MS},
            **{"protocol_type": "consumer", "protocols": [protocol]},
        }
        answer = self._enter(**asked)
        if int(answer.error_code) == _UNKNOWN_MEMBER_ID and not self._id:
            # Who coordinates the group by now does not know an id that another has given, and that
            # nobody had joined by; who is told so begins anew, as clients do.
            answer = self._enter(**asked)
        _has("it joins", answer.error_code)
        self._id, self._generation = str(answer.member_id), int(answer.generation_id)
        members = [(str(one.member_id), bytes(one.metadata)) for one in answer.members]
        _is("it joins, leader", str(answer.leader), self._id)
        _is("it joins, members", members, [(self._id, subscription(self._topic))])
        _is("it joins, protocol", str(answer.protocol_name), "range")
        if self._version(MEMBERS) >= _WITH_PROTOCOL:
            _is("it joins, type", str(answer.protocol_type), "consumer")

    def _enter(self, **asked: Any) -> Any:
        answer = self._ask(MEMBERS, member_id=self._id, **asked)
        if int(answer.error_code) == _MEMBER_ID_REQUIRED:
            return self._ask(MEMBERS, member_id=answer.member_id, **asked)
        return answer

    def _sync(self, *, is_last: bool) -> bool:
        """Whether it was given its part; if not, it has to join again."""
        given = [{"member_id": self._id, "assignment": _GIVEN}]
        kind = {"protocol_type": "consumer", "protocol_name": "range"}
        asked_ns = self._now_ns()
        answer = self._ask(ApiKey.SYNC_GROUP, **self._who(), **kind, assignments=given)
        is_unwritten = self._now_ns() - asked_ns >= _UNWRITTEN_NS
        if int(answer.error_code) == _REBALANCE_IN_PROGRESS and is_unwritten and not is_last:
            return False
        _has("it is given something", answer.error_code)
        _is("it is given something", bytes(answer.assignment), _GIVEN)
        return True

    def _keep(self) -> None:
        at = {"partition_index": 0, "committed_offset": _POSITION, "committed_metadata": _NOTE}
        who = self._who()
        who["generation_id_or_member_epoch"] = who.pop("generation_id")
        topics = [{"name": self._topic, "partitions": [at]}]
        answer = self._ask(ApiKey.OFFSET_COMMIT, **who, retention_time=-1, topics=topics)
        _has("it keeps a position", answer.topics[0].partitions[0].error_code)
        one = {
            "group_id": self._group,
            "topics": [{"name": self._topic, "partition_indexes": [0]}],
        }
        many = self._version(ApiKey.OFFSET_FETCH) >= _FETCH_GROUPS
        asked = {"groups": [one]} if many else one
        answer = self._ask(ApiKey.OFFSET_FETCH, **asked, require_stable=False)
        told = answer.groups[0] if many else answer
        _has("it asks for its position", getattr(told, "error_code", _NONE))
        kept = told.topics[0].partitions[0]
        _has("it asks for its position", kept.error_code)
        position = (int(kept.committed_offset), str(kept.metadata))
        _is("it asks for its position", position, (_POSITION, _NOTE))

    def _leave(self) -> None:
        together = self._version(ApiKey.LEAVE_GROUP) >= _LEAVE_TOGETHER
        names = (_NOBODY, self._id) if together else (self._id,)
        rows = [{"member_id": m, "group_instance_id": None, "reason": None} for m in names]
        asked = {"members": rows} if together else {"member_id": self._id}
        answer = self._ask(ApiKey.LEAVE_GROUP, group_id=self._group, **asked)
        _has("it leaves", answer.error_code)
        if not together:
            return
        _is("it leaves, members", [str(one.member_id) for one in answer.members], [*names])
        nobody, own = answer.members
        _has("it leaves", own.error_code)
        _has("nobody leaves", nobody.error_code, _UNKNOWN_MEMBER_ID)


def _write(connection: Connection, version: int, topic: str, at: int) -> None:
    now_ms = time.time_ns() // 10**6  # what is old goes
    of = {"index": 0, "records": build_batch([(None, b"in version %d" % version, now_ms)])}
    asked = {"transactional_id": None, "acks": -1, "timeout": _TIMEOUT_MS}
    data = [{"name": topic, "partition_data": [of]}]
    answer = connection.request(request(ApiKey.PRODUCE, version, **asked, topic_data=data))
    one = answer.responses[0].partition_responses[0]
    _has("it writes", one.error_code)
    _is("it writes, offset", int(one.base_offset), at)
    if version >= _WITH_START:
        _is(_BEGINS, int(one.log_start_offset), 0)


def _delete(connection: Connection, version: int, topic: str, until: int) -> None:
    rows = [{"name": topic, "partitions": [{"partition_index": 0, "offset": until}]}]
    asked = request(ApiKey.DELETE_RECORDS, version, topics=rows, timeout=_TIMEOUT_MS)
    one = connection.request(asked).topics[0].partitions[0]
    _has("it deletes", one.error_code)
    _is("it deletes, beginning", int(one.low_watermark), until)
