"""Operators delete groups, and positions of groups (KIP-229, KIP-496).

A group goes only while nobody is in it; a position only while no member reads that topic. An empty
group goes with the last of its positions. What is
deleted here is erased from the log too; as in Kafka the answer does not wait for that to be
committed, and a coordinator that dies in between brings the group back.

Threads: any; everything happens under the coordinator's lock, appends after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, MutableMapping, Sequence

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.groups.group import CONSUMER, Group, GroupState
from nodes.groups.lock import DeferringLock
from nodes.groups.membership import Membership
from nodes.groups.store import Rows, group_row, offset_row

log = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")


class GroupDeletion:
    """`error_of(group_id, may_be_empty=...)` says why this broker cannot serve a group; `append`
    writes to its partition."""

    def __init__(
        self,
        lock: DeferringLock,
        groups: MutableMapping[str, Group],
        membership: Membership,
        error_of: Callable[..., Errors],
        append: Callable[[str, Rows], None],
    ) -> None:
        self._lock = lock
        self._groups = groups
        self._membership = membership
        self._error_of = error_of
        self._append = append

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Errors]:
        """What became of each group. The lock is taken for one at a time: there may be many, and
        their names long."""
        errors = {}
        for group_id in dict.fromkeys(group_ids):
            with self._lock:
                errors[group_id] = self._delete(group_id)
        return errors

    def _delete(self, group_id: str) -> Errors:
        error = self._error_of(group_id, may_be_empty=True)
        if error:
            return error
        group = self._groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return Errors.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return Errors.NON_EMPTY_GROUP
        del self._groups[group_id]
        self._membership.unload(group)
        rows = [offset_row(group_id, tp, None) for tp in group.offsets]
        self._append(group_id, [*rows, group_row(group_id, None)])
        return Errors.NONE

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> tuple[Errors, dict[TopicPartition, Errors]]:
        """(top-level error, an error for each partition). A position that is not there is fine."""
        with self._lock:
            error = self._error_of(group_id)
            if error:
                return error, {}
            group = self._groups.get(group_id)
            if group is None or group.state is GroupState.DEAD:
                return Errors.GROUP_ID_NOT_FOUND, {}
            if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
                # What its members read is known to them alone.
                return Errors.NON_EMPTY_GROUP, {}
            read = frozenset() if group.state is GroupState.EMPTY else group.subscribed
            results = {
                tp: Errors.GROUP_SUBSCRIBED_TO_TOPIC
                if read is None or tp.topic in read
                else Errors.NONE
                for tp in partitions
            }
            gone = [tp for tp, e in results.items() if not e and tp in group.offsets]
            for tp in gone:
                del group.offsets[tp]
            rows = [offset_row(group_id, tp, None) for tp in gone]
            if partitions:
                rows += remove_if_vacant(group, self._groups, self._membership)
            if rows:
                self._append(group_id, rows)
            return Errors.NONE, results


def remove_if_vacant(
    group: Group, groups: MutableMapping[str, Group], membership: Membership
) -> Rows:
    """Take a group that is empty and has no positions from `groups`; what erases it in the log."""
    if not group.is_vacant:
        return ()
    log.info("Group %s transitioned to Dead", group.group_id)
    del groups[group.group_id]
    membership.unload(group)
    if not group.generation:
        return ()  # no record of the group itself was ever written
    return [group_row(group.group_id, None)]
