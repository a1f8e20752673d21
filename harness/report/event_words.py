"""A row of the history as a sentence, for people who follow a witness.

Fields that the sentence does not use stay visible beside it, so that nothing is interpreted away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from harness.report import units

Event = Mapping[str, Any]
_OF_OFFSETS: Final = frozenset({"commit", "ask", "raise", "see", "keep"})
_COMMON: Final = frozenset({"f", "t", "process", "node", "boot", "seq", "op", "invoke_t", "type"})


def sentence(event: Event) -> str:
    """What happened."""
    teller = _TELLERS.get(str(event.get("f")))
    return teller(_Fields(event)) if teller else ""


def who(event: Event) -> str:
    """Who wrote the row down, and the broker that it concerns."""
    process, node = str(event.get("process") or ""), event.get("node")
    if node is None or process == f"node-{node}":
        return process
    return f"{process} (node {node})"


def rest(event: Event, zero_t: int) -> str:
    """The fields as they are stored, but for those that every row has. Moments (names in ``_t``)
    are seconds since ``zero_t``, as everywhere around."""

    def written(name: str, value: Any) -> str:
        if name.endswith("_t") and isinstance(value, int):
            return f"{(value - zero_t) / 1e9:.6f} s"
        return _value(value)

    return ", ".join(f"{k}={written(k, v)}" for k, v in event.items() if k not in _COMMON)


def error_name(code: int | None) -> str:
    """Kafka's name of an error code."""
    if code is None:
        return "no answer"
    return _error_names().get(code, f"ERROR_{code}")


@cache
def _error_names() -> dict[int, str]:
    from kio.schema.errors import ErrorCode

    return {int(error): error.name.upper() for error in ErrorCode}


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}={_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return str(value)


class _Fields:
    """A row's fields by name; one that is absent reads as a question mark."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def __getattr__(self, name: str) -> Any:
        found = self.event.get(name)
        return "?" if found is None else found

    def get(self, name: str) -> Any:
        return self.event.get(name)

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def came_of(self) -> str:
        """What came of an operation."""
        error, failure = self.get("error"), self.get("failure")
        why = error_name(error) if error else str(failure or "no reason given")
        took = ""
        if self.get("invoke_t") is not None and self.get("t") is not None:
            took = f" after {units.ms((self.event['t'] - self.event['invoke_t']) / 1e6)}"
        if self.type == "ok":
            return f"ok{took}"
        if self.type == "fail":
            return f"failed{took}: {why}"
        return f"nobody knows what came of it{took}: {why}"

    @property
    def answer(self) -> str:
        error = self.get("error")
        return "accepted" if error == 0 else f"answered {error_name(error)}"

    @property
    def states(self) -> str:
        """The partitions that a controller request carried."""
        found = self.get("partitions") or []
        parts = [
            f"{p.get('topic')}-{p.get('partition')}: leader {p.get('leader')} at leader epoch "
            f"{p.get('leader_epoch')}"
            for p in found[:3]
        ]
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        return f" ({'; '.join(parts)}{more})" if parts else ""


def _acks(acks: Any) -> str:
    return "all" if acks == -1 else str(acks)


def _asked(asked_ms: Any) -> str:
    """What ListOffsets can be asked for."""
    known = {-1: "ends", -2: "begins"}
    return known.get(asked_ms, f"has its first record at or after {asked_ms} ms")


def _found(e: _Fields) -> str:
    """An offset that was answered, with its leader epoch."""
    if e.get("type") != "ok" or e.get("offset") is None:
        return str(e.came_of)
    where = "nowhere" if e.offset == -1 else f"offset {e.offset}"
    return where if e.get("leader_epoch") is None else f"{where}, leader epoch {e.leader_epoch}"


def _told_a_client(e: _Fields) -> str:
    """An answer about a partition; or one that named none; or what became of a read."""
    if e.get("partition") is not None:
        told = f"{e.place} is led by {e.leader} at leader epoch {e.leader_epoch}"
        isr = "" if e.get("isr") is None else f", ISR {e.isr}"
        return f"node {e.node} told a client: {told}{isr}{_in_office(e)}"
    if e.get("topic") is not None:
        why = error_name(e.error) if e.get("error") else e.failure
        return f"node {e.node} told a client no partition of {e.topic}: {why}{_in_office(e)}"
    return f"node {e.node} was asked for metadata: {e.came_of}"


def _in_office(e: _Fields) -> str:
    return "" if e.get("controller_id") is None else f"; the controller is {e.controller_id}"


def _written(e: _Fields) -> str:
    step = {"created": "made", "removed": "removed"}.get(e.step, "set")
    if e.what == "state" and e.get("leader_epoch") is not None:
        return (
            f"{e.place} is led by {e.leader} at leader epoch {e.leader_epoch}, ISR {e.isr}, "
            f"partition epoch {e.partition_epoch}, by controller epoch {e.controller_epoch}"
        )
    if e.what == "topic" and e.get("replicas") is not None:
        return f"{e.place} has replicas {e.replicas}"
    if e.what == "controller":
        left = "is no longer" if e.step == "removed" else "is"
        return f"node {e.node} {left} the controller"
    if e.what == "controller_epoch":
        return f"the controller epoch is {e.controller_epoch}"
    if e.what == "broker":
        return f"the registration of node {e.node} is {step}"
    return f"the {e.what} of {e.get('topic') or 'something'} is {step}"


_TELLERS: Final[Mapping[str, Callable[[_Fields], str]]] = {
    "produce": lambda e: (
        f"value {e.value} offered to {e.place} with acks={_acks(e.acks)}: {e.came_of}"
        + (f", at offset {e.offset}" if e.get("offset") is not None and e.type == "ok" else "")
    ),
    "fetch": lambda e: (
        f"consumer was given {e.place} offset {e.offset}: value {e.value}"
        if e.get("offset") is not None
        else f"a poll of {e.place} gave nothing: {e.came_of}"
    ),
    "waiting": lambda e: (
        f"{e.process} has asked node {e.node} for {e.place}, and was given nothing"
    ),
    "assignment": lambda e: f"{e.process} of group {e.group}: {e.place} is {e.event}",
    "listed_offset": lambda e: (
        f"node {e.node} was asked where {e.place} {_asked(e.asked_ms)}: {_found(e)}"
    ),
    "epoch_end": lambda e: (
        f"node {e.node} was asked where leader epoch {e.asked_epoch} ends in {e.place}: {_found(e)}"
    ),
    "group_step": lambda e: (
        f"node {e.node}, {e.step} of group {e.group}: {e.came_of}"
        + (f", offset {e.offset}" if e.type == "ok" and e.step in _OF_OFFSETS else "")
    ),
    "admin_request": lambda e: (
        f"node {e.node} was asked by its operator, {e.api} {e.about}".rstrip() + f": {e.came_of}"
    ),
    "coordinator": lambda e: (
        f"node {e.node} was asked who coordinates group {e.group}: "
        + (f"node {e.coordinator}" if e.type == "ok" else e.came_of)
    ),
    "read_at": lambda e: (
        f"node {e.node} was asked for what is at offset {e.offset} of {e.place}, by one who "
        f"believed in leader epoch {e.believed_epoch}"
        + (
            f" and would wait {e.max_wait_ms} ms for {e.min_bytes} bytes"
            if e.get("max_wait_ms")
            else ""
        )
        + ": "
        + (f"up to offset {e.found_end} was given" if e.type == "ok" else e.came_of)
    ),
    "read_below": lambda e: (
        f"node {e.node} was asked for offset {e.offset} of {e.place}, before its beginning: "
        f"{e.came_of}"
    ),
    "repeated": lambda e: (
        f"{e.process} sends value {e.value}, which is at offset {e.first_offset} of {e.place}, to "
        f"node {e.node} once more: {e.came_of}" + (f", offset {e.offset}" if e.type == "ok" else "")
    ),
    "records_deleted": lambda e: (
        f"node {e.node} was told to let {e.place} begin at offset {e.offset}: {e.came_of}"
        + (f", low watermark {e.low_watermark}" if e.type == "ok" else "")
    ),
    "commit": lambda e: (
        f"{e.process} commits offset {e.offset} of {e.place} for group {e.group}: {e.came_of}"
    ),
    "committed": lambda e: (
        f"group {e.group} asks for its offset of {e.place}: {e.offset}, {e.came_of}"
    ),
    "metadata": _told_a_client,
    "probe": lambda e: f"probe ({e.api}) on the {e.plane} plane: {e.came_of}",
    "control_send": lambda e: (
        f"controller {e.node} sends {e.api} no. {e.correlation_id} to node {e.to}, controller "
        f"epoch {e.controller_epoch}, attempt {e.attempt}{e.states}"
    ),
    "channel_queue": lambda e: (
        f"controller {e.node}'s metrics of its queue to node {e.to}: QueueSize {e.size}, {e.taken} "
        f"taken so far, the slowest of late after {e.queue_time_max_us} us"
    ),
    "control_response": lambda e: (
        f"node {e.to} to controller {e.node}, {e.api} no. {e.correlation_id}: "
        f"{e.get('failure') or e.answer}"
    ),
    "control_request": lambda e: (
        f"node {e.node} handled {e.api} no. {e.correlation_id} of controller {e.controller_id}, "
        f"controller epoch {e.controller_epoch}, on the {e.plane} plane: {e.answer}{e.states}"
    ),
    "leadership": lambda e: (
        f"node {e.node} shows, first of all, {e.place} led by {e.leader} at leader epoch "
        f"{e.leader_epoch}"
        if e.source == "shown"
        else f"committed: {e.place} is led by {'nobody' if e.leader == -1 else e.leader} at leader "
        f"epoch {e.leader_epoch}, ISR {e.isr}"
    ),
    "zk_write": lambda e: f"ZooKeeper's log, zxid {e.zxid}: {_written(e)}",
    "topic_deletion": lambda e: (
        f"committed: the deletion of topic {e.topic} is requested"
        if e.step == "requested"
        else f"committed: topic {e.topic} is gone"
    ),
    "leader_change": lambda e: (
        f"node {e.node} becomes {e.role} of {e.place} at leader epoch {e.leader_epoch} (leader "
        f"{e.leader}), its log ending at {e.log_end_offset}"
    ),
    "replica_stop": lambda e: (
        f"node {e.node} stops its replica of {e.place}"
        + (" and deletes it" if e.get("delete") else "")
    ),
    "truncation": lambda e: (
        f"node {e.node} cuts {e.place}: offsets {e.to_offset} to "
        f"{_before(e.get('from_offset'))} are gone from it ({e.reason})"
    ),
    "metadata_update": lambda e: (
        f"node {e.node} learns that {e.place} is led by {e.leader} at leader epoch {e.leader_epoch}"
    ),
    "isr_change": lambda e: f"the ISR of {e.place} is {e.isr} at leader epoch {e.leader_epoch}",
    "controller": lambda e: f"node {e.node} {e.event} as controller, epoch {e.controller_epoch}",
    "exception": lambda e: f"node {e.node} met {e.error} in {e.place}: {e.says}",
    "fault": lambda e: f"fault {e.id} ({e.fault}): {e.phase}",
    "forged": lambda e: (
        f"forged {e.api} to node {e.node} ({_spaced(e.lie)}), controller epoch "
        f"{e.controller_epoch}, broker epoch {e.broker_epoch}, {e.place} at leader epoch "
        f"{e.leader_epoch}: {e.answer}"
    ),
    "node_event": lambda e: f"node {e.node}: {e.event}",
    "phase": lambda e: f"{e.name}: {e.event}",
    "connection": lambda e: (
        f"node {e.node} now has {e.connections} connections to node {e.to}'s {e.link} link"
    ),
    "plane_use": lambda e: (
        f"node {e.node}'s {e.plane} plane has served {e.requests} {e.api} requests that arrived on "
        f"listener {e.listener}"
    ),
    "plane_metric": lambda e: (
        f"while fault {e.name} lay on it, node {e.node} "
        + (
            f"gave no metrics: {e.error}"
            if e.get("error")
            else f"told by {e.mbean}, {e.attribute}: {e.get('value')}"
        )
    ),
    "infra": lambda e: f"{e.component} failed: {e.reason}",
    "strain": lambda e: (
        f"in the second before, the harness ran for {e.ran_ns} ns, and waited for a processor for "
        f"{e.waited_ns} ns"
    ),
    "standstill": lambda e: "the machine had stood still until then",
    "clock_set": lambda e: "the wall clock of the machine was set",
    "source": lambda e: f"{e.source}.jsonl holds {e.rows} rows; {e.missing} are missing",
    "final_state": lambda e: f"in the end, {_final_state(e)}",
    "log_read": lambda e: (
        f"final log of node {e.node}: {e.place} offset {e.offset} holds value {e.value} (leader "
        f"epoch {e.leader_epoch})"
    ),
    "log_end": lambda e: (
        f"final log of node {e.node}: {e.place} spans {e.log_start_offset} to "
        f"{_before(e.get('log_end_offset'))}, high watermark {e.high_watermark}"
        + (", the leader" if e.get("is_leader") else "")
        + (f", not readable: {e.error}" if e.get("error") else "")
    ),
    "log_folder": lambda e: (
        f"on disk, the log of {e.place} on node {e.node} ends at {e.end_offset}, with topic id "
        f"{e.topic_id} and leader epochs {_begins(e.get('checkpoint'))}"
        + "".join(f"; {one['file']}: {one['says']}" for one in e.get("damage") or ())
        + (f"; not readable: {e.error}" if e.get("error") else "")
    ),
    "described": lambda e: (
        f"in the end, node {e.node} gave no answer to {e.api}: {e.error}"
        if e.get("error")
        else f"in the end, node {e.node} told by {e.api} as {e.key} of {e.name or 'the cluster'}: "
        f"{e.get('told')}" + (f"; it was {e.get('truth')}" if e.known else "")
    ),
}


def _begins(checkpoint: Sequence[Mapping[str, int]] | None) -> str:
    each = (f"{one['leader_epoch']} from {one['offset']}" for one in checkpoint or ())
    return ", ".join(each) or "none"


def _final_state(e: _Fields) -> str:
    match e.get("what"):
        case "partition":
            return f"{e.place} is led by {e.leader}, ISR {e.isr} of {e.replicas}"
        case "replica":
            began, end = e.earlier_end_offset, e.log_end_offset
            return (
                f"the log of {e.place} on node {e.node} ends at {end}, when first seen at {began}"
            )
        case "node":
            lacks = [name for name in ("running", "registered", "answers") if not e.get(name)]
            how = f"is not: {', '.join(lacks)}" if lacks else "runs, is registered and answers"
            return f"node {e.node} {how}"
        case "leftover":
            return f"node {e.node} still has a log of {e.place}, which is deleted or moved"
        case "unread":
            return f"the state could not be read: {e.failure}"
    return f"the {e.what} of {e.topic} is still under way"


def _before(end: int | None) -> str:
    """The last offset below an end that is not included."""
    return "?" if end is None else f"{end - 1}"


def _spaced(name: Any) -> str:
    return str(name).replace("_", " ")
