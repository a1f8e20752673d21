"""Kafka's words, for readers who meet them for the first time in a witness."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = (
    (
        r"acks=all",
        "acks=all",
        "the broker answers “written” only when every in-sync replica has it: such a record "
        "must never be lost",
    ),
    (
        r"acks=1\b",
        "acks=1",
        "the leader alone answers “written”: if it is replaced before others have copied the "
        "record, the record may lawfully be lost",
    ),
    (
        r"\bin[- ]sync\b|\bISR\b",
        "in-sync set (ISR)",
        "the replicas that have all that was promised; the next leader is chosen from them",
    ),
    (
        r"leader epoch",
        "leader epoch",
        "which leader of the partition in turn: each new leader has the next number",
    ),
    (
        r"partition epoch",
        "partition epoch",
        "counts each change of the partition's leader or in-sync set",
    ),
    (
        r"controller epoch",
        "controller epoch",
        "which controller of the cluster in turn: whoever has an older number has been replaced",
    ),
    (
        r"broker epoch",
        "broker epoch",
        "which registration of a broker: it has another one after each start",
    ),
    (
        r"\bcontroller\b",
        "controller",
        "the one broker that decides who leads which partition, and tells the others",
    ),
    (
        r"high watermark",
        "high watermark",
        "up to here all in-sync replicas have the log; consumers read no further",
    ),
    (
        r"\bcommitted\b",
        "committed",
        "written where the cluster keeps its decisions; from then on it is so, whoever has "
        "heard of it yet",
    ),
    (
        r"LEADER_AND_ISR|LeaderAndIsr",
        "LeaderAndIsr",
        "the controller's request that tells a broker which partitions it leads and which it "
        "follows",
    ),
    (
        r"UPDATE_METADATA|UpdateMetadata",
        "UpdateMetadata",
        "the controller's request that tells a broker who leads, so that it can tell clients",
    ),
    (
        r"STOP_REPLICA|StopReplica",
        "StopReplica",
        "the controller's request to give a replica up",
    ),
    (
        r"truncat|\bcuts?\b",
        "truncation",
        "a follower cuts off what its leader does not have; what was acknowledged and is cut "
        "is lost",
    ),
    (
        r"control(?:ler)?[ -]plane|control plane|control listener",
        "control plane",
        "the way that controllers' requests take; in dual planes apart from clients' requests",
    ),
    (
        r"\bforged\b",
        "forged",
        "sent by the harness in the name of a controller, to see whether it is refused",
    ),
    (
        r"idempotent",
        "idempotent producer",
        "numbers its records, so that one sent twice is kept once",
    ),
    (
        r"\boffset",
        "offset",
        "a record's place in its partition's log",
    ),
    (
        r"\bgroup\b",
        "consumer group",
        "consumers that share partitions and note how far they came",
    ),
    (
        r"\bsession\b|\bregister",
        "registration",
        "a broker is alive to the cluster while it is registered",
    ),
)


def explained(text: str) -> list[tuple[str, str]]:
    """(word, what it means) of those that the text uses, in the order of the list."""
    return [(word, says) for pattern, word, says in _WORDS if re.search(pattern, text)]
