"""Errors of other requests, for `checkers.promises.administration`.

By its error who asks tells what was wrong: that the preferred replica is not in sync, say, or that
there is such a topic already. Some errors have one meaning, and one kind of request that they
answer (KafkaController.processReplicaLeaderElection, ZkAdminManager, ReplicationControlManager).

- ``refused-otherwise``: another kind of request is refused with one of them. Nobody here asks for
  an unclean election, so nobody is told that no replica could lead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from checkers.judging.witness import Finding, Pick

RULE: Final = "refused-otherwise"
_MAKE, _GROW, _DELETE = "CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS"
_ELECT, _MOVE = "ELECT_LEADERS", "ALTER_PARTITION_REASSIGNMENTS"
OF_ONE: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {
    36: ("TOPIC_ALREADY_EXISTS", (_MAKE,)),
    37: ("INVALID_PARTITIONS", (_MAKE, _GROW)),
    60: ("REASSIGNMENT_IN_PROGRESS", (_GROW, _MOVE)),
    73: ("TOPIC_DELETION_DISABLED", (_DELETE,)),
    80: ("PREFERRED_LEADER_NOT_AVAILABLE", (_ELECT,)),
    83: ("ELIGIBLE_LEADERS_NOT_AVAILABLE", ()),
    84: ("ELECTION_NOT_NEEDED", (_ELECT,)),
    85: ("NO_REASSIGNMENT_IN_PROGRESS", (_MOVE,)),
}
"""By error, its name, and the requests that it answers."""
Row = Mapping[str, Any]
Trial = tuple[str, int]


def misnamed(trial: Trial, requests: Sequence[Row]) -> Iterator[Finding]:
    """``requests``: an operator's sound ones. One finding for each kind and error."""
    told: set[tuple[str, int]] = set()
    for row in requests:
        name, answers = OF_ONE.get(row["error"], ("", (row["api"],)))
        if row["api"] in answers or (row["api"], row["error"]) in told:
            continue
        told.add((row["api"], row["error"]))
        yield Finding(
            RULE,
            f"node {row['node']} was asked for {row['api']} {row['about']}, and refused it with "
            f"{name}, which is no answer to that",
            *trial,
            (Pick("admin_request", {"process": row["process"], "op": row["op"]}, rows=1),),
        )
