"""``metadata.log``: when a KRaft broker's metadata cache took in what the controller committed.

    [BrokerMetadataPublisher id=1] Publishing initial metadata at offset
        OffsetAndEpoch[offset=40, epoch=2] with ...          a boot's first, everything up to 40
    [BrokerMetadataPublisher id=1] Publishing metadata at offset OffsetAndEpoch[offset=43, epoch=2]
        with ...                                             what came after it, up to 43

(Older ones say ``(offset=40, leaderEpoch=2)``.) Kafka writes each line right after it has set the
cache to that image (kafka.server.metadata.BrokerMetadataPublisher), before replicas become leaders
or followers by it. Together with the metadata log, which says what lies at each offset, a line is a
`metadata_update` row for each partition that changed: the propagation that in ZooKeeper mode
UpdateMetadata requests make.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from harness.sut.kafka_evidence.lines import Tally, read_lines
from harness.sut.kafka_evidence.stamps import Stamps
from harness.sut.metadata_log import Committed

_PUBLISHED: Final = re.compile(
    r"\[BrokerMetadataPublisher id=\d+\] Publishing (initial )?metadata at offset "
    r"(?:OffsetAndEpoch)?[\[(]offset=(-?\d+), (?:epoch|leaderEpoch)=-?\d+[\])]"
)
_PUBLISHER: Final = "[BrokerMetadataPublisher id="
Row = dict[str, Any]


def publish_rows(
    path: Path, states: Sequence[Committed], stamps: Stamps, tally: Tally
) -> Iterator[Row]:
    """``states``: what the metadata log holds, in the order of its offsets. Of a partition that
    changed more than once between two lines the cache has only the last state."""
    reached = -1
    for line in read_lines(path, tally):
        found = _PUBLISHED.match(line.message)
        if found is None:
            if line.message.startswith(_PUBLISHER):
                tally.count(path.name, "ignored")
            else:
                tally.unknown(path.name, line.message)
            continue
        tally.count(path.name, "known")
        after, reached = -1 if found[1] else reached, int(found[2])
        changed = {(s.topic, s.partition): s for s in states if after < s.offset <= reached}
        for state in changed.values():
            yield stamps.row(
                "metadata_update",
                line.wall_ms,
                topic=state.topic,
                partition=state.partition,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                controller_epoch=state.controller_epoch,
            )
