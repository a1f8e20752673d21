"""What run.json says of a workload that was launched: what must be seen of it in the history.

Without it a check cannot tell a producer that never produced from one that never was. Plain data,
read back by `checkers.history.run_info`.
"""

from __future__ import annotations

from typing import Any

from harness.workload.spec import WorkloadSpec


def told(spec: WorkloadSpec) -> dict[str, Any]:
    """``topics``: partitions by topic (none named: all of it); ``nodes``: whom it asks each by
    itself; of a producer ``acks``, and ``delivery``: "once", it sends a record at most once;
    "once-a-leader", again only when the leader said that it is none, or another broker told of no
    such leader (librdkafka does, however few retries it is allowed: its
    rd_kafka_handle_Produce_error counts that as none); "idempotent",
    again and again, and is promised that it lands once; absent, nothing of that; and
    ``ack_timeout_ms``, where it says how long a broker may wait for acks=all, and ``in_flight``,
    where it says how many requests a broker may have of it at once; of a consumer
    ``begins``: at the "start" of its partitions, or at their "end"; of a group's member, at their
    start unless the group has kept an offset, and its ``group``."""
    params = spec.params
    record: dict[str, Any] = {"process": spec.process, "role": spec.role}
    if spec.role == "direct-producer":
        record["topics"] = {params["topic"]: [params.get("partition", 0)]}
    elif spec.role == "group-consumer":  # which partitions it is given is the group's business
        record["topics"] = {topic: [] for topic in params["topics"]}
        record["group"] = params["group"]
        if (params.get("client") or {}).get("auto.offset.reset", "earliest") == "earliest":
            record["begins"] = "start"
    elif spec.role == "record-deleter":
        record["topics"] = {topic: [] for topic in params["topics"]}
    elif spec.role == "group-riser":
        record["topics"] = {params["topic"]: [0]}
    elif spec.role in ("producer", "joint-producer", "consumer"):
        record["topics"] = {topic: list(range(count)) for topic, count in params["topics"].items()}
        if spec.role == "consumer":
            record["begins"] = "start" if params.get("late_ms") is None else "end"
    elif spec.role == "metadata-reader":
        record["topics"] = {topic: [] for topic in params["topics"]}
        record["nodes"] = sorted(spec.bootstrap)
    elif spec.role == "prober":
        record["nodes"] = sorted(int(node) for node in params["listeners"])
    if spec.role in ("producer", "direct-producer", "joint-producer"):
        record["acks"] = params["acks"]
        if params.get("ack_timeout_ms") is not None:
            record["ack_timeout_ms"] = params["ack_timeout_ms"]
        in_flight = (params.get("client") or {}).get("max.in.flight.requests.per.connection")
        if in_flight is not None:
            record["in_flight"] = int(in_flight)
        if params.get("idempotent") or params.get("repeats"):
            record["delivery"] = "idempotent"
        elif not params.get("retries"):
            record["delivery"] = "once-a-leader" if spec.role == "producer" else "once"
    if "rate_per_s" in params:
        record["rate_per_s"] = params["rate_per_s"]
    return record
