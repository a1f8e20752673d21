"""Positions that have become too old, and groups that nobody needs any more, are removed (Kafka's
GroupMetadataManager.cleanupGroupMetadata, every ``offsets.retention.check.interval.ms``).

When a position is too old (KIP-211, GroupMetadata.removeExpiredOffsets): ``offsets.retention``
after its group became empty; after its commit where the group only keeps positions, or is stable
and reads that topic no more; never while a rebalance is under way. A position that was committed
with a time of its own (OffsetCommit 2 to 4) goes when that says so.

A group goes when it is empty and has no positions. So what phantoms can occupy is bounded in time:
who never joins is forgotten with the session that it asked for (see `Membership`), at most
``group.max.session.timeout.ms``; what such a member leaves behind goes with the next check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping

from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.groups.deletion import remove_if_vacant
from nodes.groups.group import CONSUMER, Group, GroupState
from nodes.groups.lock import DeferringLock
from nodes.groups.membership import Membership
from nodes.groups.messages import CommittedOffset
from nodes.groups.store import Rows, offset_row

log = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")


class GroupExpiration:
    """Any thread. The lock is taken for one group at a time; `append` writes to its partition."""

    def __init__(
        self,
        lock: DeferringLock,
        groups: MutableMapping[str, Group],
        membership: Membership,
        append: Callable[[str, Rows], None],
        *,
        retention_ms: int,
        now_ms: Callable[[], int],
        rules: Rules = RULES,
    ) -> None:
        self._lock = lock
        self._groups = groups
        self._membership = membership
        self._append = append
        self._retention_ms = retention_ms
        self._now_ms = now_ms
        self._rules = rules

    def run(self) -> None:
        """One check of all groups."""
        with self._lock:
            group_ids = list(self._groups)
        removed = 0
        for group_id in group_ids:
            with self._lock:
                group = self._groups.get(group_id)
                if group is not None:
                    removed += self._check(group)
        if removed:
            log.info("Removed %d expired offsets", removed)

    def _check(self, group: Group) -> int:
        expired = expired_offsets(group, self._now_ms(), self._retention_ms)
        for tp in expired:
            del group.offsets[tp]
        erased = expired if self._rules.erases_what_expires() else []
        rows = [offset_row(group.group_id, tp, None) for tp in erased]
        rows += remove_if_vacant(group, self._groups, self._membership)
        if rows:
            self._append(group.group_id, rows)
        return len(expired)


def expired_offsets(group: Group, now_ms: int, retention_ms: int) -> list[TopicPartition]:
    """The positions of a group that are to be removed now."""
    read: frozenset[str] = frozenset()
    since_empty = False
    if group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            # Groups from before Kafka 2.1 have not recorded when they became empty.
            since_empty = group.state_timestamp_ms >= 0
        elif group.state is GroupState.STABLE and group.protocol_type == CONSUMER:
            if group.subscribed is None:
                return []
            read = group.subscribed
        else:
            return []

    def is_expired(tp: TopicPartition, committed: CommittedOffset) -> bool:
        if tp.topic in read or tp in group.pending_commits:
            return False
        if committed.expire_timestamp_ms >= 0:
            return now_ms >= committed.expire_timestamp_ms
        since_ms = group.state_timestamp_ms if since_empty else committed.commit_timestamp_ms
        return now_ms - since_ms >= retention_ms

    return [tp for tp, committed in group.offsets.items() if is_expired(tp, committed)]
