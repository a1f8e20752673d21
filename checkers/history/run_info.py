"""``run.json``: what was asked of a run, as far as judging its history needs it.

    {"version": 1, "run_id": "...", "scenario": "...", "seed": 1,
     "arms": {"dualplane-single": {"sut": "dualplane", "planes": "single", "runtime": "process",
                                   "checks": ["fencing"]}},
     "expectations": {"leader_changes_planned": true, "faults": ["flood"], "checks": ["fencing"],
                      "settling_ms": 5000},
     "clock": {"monotonic_minus_wall_ns": -1, "error_ns": 100000},
     "history": {"rows": {"produce": 400}, "rejected": 0, "rejected_reasons": {}},
     "trials": [{"arm": "...", "trial": 0, "failure": null, "topics": {"t": {"configs": {...}}},
                 "planned": [{"id": "kill-0", "fault": "kill", "at_ms": 300, "duration_ms": 500}],
                 "workloads": [{"process": "p", "role": "producer", "acks": 1,
                                "topics": {"t": [0, 1]}, "nodes": []}]}]}

``planned`` and ``workloads`` say what must be seen in the trial; where they are absent (an old
run), nobody knows. ``topics`` may also stand at the top. Unknown fields are the harness's own
business; a field that is read and has the wrong form is a `HistoryError` naming file, field and
what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checkers.history import VERSION, HistoryError
from checkers.history.parts import newer_or_wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """What of a topic's configuration decides whether a loss is lawful. Kafka's defaults."""

    unclean_leader_election: bool = False
    min_insync_replicas: int = 1
    compacted: bool = False
    """Whether its logs are compacted; see `RunInfo.compacts_away`."""
    forgets_erased: bool = False
    """Whether compaction may take, while a run lasts, what has no value (delete.retention.ms)."""
    unique_keys: bool = False
    """Whether whatever is sent there has a key of its own."""
    expires: bool = False
    """Whether retention may take records within a run: then logs may begin later than at 0."""
    retention_ms: int | None = None
    retention_bytes: int | None = None
    """What of that it is itself configured to, where retention is all that takes its records."""
    segment_ms: int | None = None
    """What of that it is itself configured to, without jitter."""
    log_append_time: bool = False
    """Whether brokers date what they append."""
    assignment: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The replicas that it was to be made with, in their order, by partition; empty: any."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """The settings of its own that it was made with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A client process that was launched. ``topics``: partitions by topic (none: all of it);
    ``nodes``: whom it asks each by itself; ``acks``: of a producer, None when it is none;
    ``delivery``: once, it sends a record at most once; once-a-leader, again when the leader said
    that it is none; idempotent, again, and is promised that it lands once; None: it may send again,
    or nobody knows; ``begins``: a consumer at its partitions' "start" or "end" (a group's member
    unless an offset is kept); None: elsewhere, or nobody knows; ``ack_timeout_ms``: how long a
    producer lets its broker wait for acks=all, None: nobody says; ``group``: of a group's member,
    None: nobody says; ``in_flight``: of a producer that gives it a bound, how many requests a
    broker has of it at once."""

    process: str
    role: str
    topics: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    nodes: tuple[int, ...] = ()
    acks: int | None = None
    delivery: str | None = None
    begins: str | None = None
    ack_timeout_ms: int | None = None
    group: str | None = None
    in_flight: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A fault that was to be injected. Offsets count from the start of the chaos phase."""

    id: str
    fault: str
    at_ms: int = 0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The judged run. ``checks`` is None when nobody said which: then all are run, none required.

    ``clock_offset_ns``: monotonic minus wall clock, None when the run did not tie them.
    """

    version: int | None = None
    """Of run.json; None: it does not say."""
    merged: bool = False
    """Several runs laid beside each other: their trials may have been played at once."""
    run_id: str = ""
    scenario: str = ""
    seed: int = 0
    arms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    checks: tuple[str, ...] | None = None
    faults: tuple[str, ...] = ()
    faults_may_collide: bool = False
    """Faults drawn at random may be in each other's way: one that then fails is no lack."""
    leader_changes_planned: bool = False
    settling_ns: int | None = None
    """How long after healing brokers may still show old leaders; None: the checker's own limit."""
    clock_offset_ns: int | None = None
    clock_error_ns: int = 0
    topics: Mapping[tuple[str, int, str], TopicFacts] = field(default_factory=dict)
    """By (arm, trial, topic); see `topic`."""
    topics_everywhere: Mapping[str, TopicFacts] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    """Why trials were cut short, in words."""
    trials: tuple[tuple[str, int], ...] = ()
    played: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    """By (arm, trial): those of the faults that its system can have. See `faults_of`."""
    planned: Mapping[tuple[str, int], tuple[Planned, ...]] = field(default_factory=dict)
    """By (arm, trial): the plan's entries to be played there. Absent: not known."""
    workloads: Mapping[tuple[str, int], tuple[Workload, ...]] = field(default_factory=dict)
    """By (arm, trial): the clients that were launched. Absent: not known."""
    rounds: int | None = None
    """How many trials each arm was to have; None: not known."""
    rejected: int = 0
    """Lines of the live history that did not become rows."""
    rejected_reasons: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] | None = None
    """How many rows of each kind its history has; None: not known."""

    def faults_of(self, arm: str, trial: int) -> tuple[str, ...]:
        """What must have come there. One that nothing was left for was not put to any test."""
        return self.played.get((arm, trial)) or self.faults

    def deliveries(self) -> dict[tuple[str, int, str], str]:
        """By (arm, trial, process): how often a producer sends a record, where that is known."""
        return {
            (*key, workload.process): workload.delivery
            for key, workloads in self.workloads.items()
            for workload in workloads
            if workload.delivery is not None
        }

    def can_be_judged(self, arm: str, check: str) -> bool:
        """Whether an arm's system shows what the check judges (all, where nothing says less)."""
        checks = self.arms.get(arm, {}).get("checks")
        return checks is None or check == "activity" or check in checks

    def may(self, arm: str, what: str) -> bool:
        """Whether an arm's system may do what only old releases do; so where nobody knows."""
        return bool(self.arms.get(arm, {}).get(what, True))

    brokers: Mapping[str, str] = field(default_factory=dict)
    """What the brokers' own configuration was set to for this run, by its scenario and its user."""

    def topic(self, arm: str, trial: int, name: str) -> TopicFacts:
        known = self.topics.get((arm, trial, name)) or self.topics_everywhere.get(name)
        return known or TopicFacts(expires=_expires({}, self.brokers))

    def compacts_away(self, arm: str, trial: int, topic: str) -> bool:
        """Whether compaction may take records there: not where each has a key of its own and is
        in the log but once (whoever sends it again has the older one taken; so may an idempotent
        producer that begins a new epoch), and stays for long if it has no value."""
        facts = self.topic(arm, trial, topic)
        if not facts.compacted or not facts.unique_keys or facts.forgets_erased:
            return facts.compacted
        producers = [
            workload
            for workload in self.workloads.get((arm, trial), ())
            if topic in workload.topics and workload.acks is not None
        ]
        return not producers or any(each.delivery != "once" for each in producers)

    @classmethod
    def parse(cls, text: str, where: str) -> RunInfo:
        """Read ``run.json``; ``where`` names it in errors."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise HistoryError(f"{where}: not JSON: {error}") from error
        return cls.from_dict(data, where)

    @classmethod
    def from_dict(cls, data: Any, where: str = "run.json") -> RunInfo:
        read = _Reader(where)
        top = read.mapping(data, "run")
        version = top.get("version", VERSION)
        if not isinstance(version, int) or not 1 <= version <= VERSION:
            raise HistoryError(newer_or_wrong(where, version))
        expectations = read.mapping(top.get("expectations", {}), "expectations")
        clock = read.mapping(top.get("clock", {}), "clock")
        checks = expectations.get("checks")
        settling = expectations.get("settling_ms")
        trials = read.sequence(top.get("trials", []), "trials")
        settings = read.mapping(top.get("settings", {}), "settings")
        brokers = {
            **read.mapping(expectations.get("overrides", {}), "expectations.overrides"),
            **read.mapping(settings.get("overrides", {}), "settings.overrides"),
        }
        topics: dict[tuple[str, int, str], TopicFacts] = {}
        failures = ["the run was interrupted"] if top.get("interrupted") else []
        pairs = []
        played: dict[tuple[str, int], tuple[str, ...]] = {}
        planned: dict[tuple[str, int], tuple[Planned, ...]] = {}
        workloads: dict[tuple[str, int], tuple[Workload, ...]] = {}
        for number, entry in enumerate(trials):
            trial = read.mapping(entry, f"trials[{number}]")
            key = (
                str(trial.get("arm")),
                read.integer(trial.get("trial"), f"trials[{number}].trial"),
            )
            pairs.append(key)
            if trial.get("faults") is not None:
                played[key] = read.strings(trial["faults"], f"trials[{number}].faults")
            if trial.get("planned") is not None:
                entries = read.sequence(trial["planned"], f"trials[{number}].planned")
                planned[key] = tuple(
                    _planned(read, e, f"trials[{number}].planned") for e in entries
                )
            if trial.get("workloads") is not None:
                entries = read.sequence(trial["workloads"], f"trials[{number}].workloads")
                workloads[key] = tuple(
                    _workload(read, e, f"trials[{number}].workloads") for e in entries
                )
            if trial.get("failure"):
                failures.append(f"{key[0]}, trial {key[1]}: {trial['failure']}")
            named = read.mapping(trial.get("topics", {}), f"trials[{number}].topics")
            for name, facts in named.items():
                where_of = f"trials[{number}].topics.{name}"
                topics[*key, name] = _topic(read, facts, brokers, where_of)
        stored = read.mapping(top.get("history", {}), "history")
        rounds = expectations.get("rounds")
        everywhere = read.mapping(top.get("topics", {}), "topics")
        offset = clock.get("monotonic_minus_wall_ns")
        return cls(
            version=top.get("version"),
            merged=bool(top.get("merged")),
            run_id=str(top.get("run_id", "")),
            scenario=str(top.get("scenario", "")),
            seed=read.integer(top.get("seed", 0), "seed"),
            arms=_arms(read, top.get("arms", {})),
            checks=None if checks is None else read.strings(checks, "expectations.checks"),
            faults=_fault_names(read, expectations.get("faults", [])),
            faults_may_collide=bool(expectations.get("faults_may_collide", False)),
            leader_changes_planned=bool(expectations.get("leader_changes_planned", False)),
            settling_ns=(
                None
                if settling is None
                else read.natural(settling, "expectations.settling_ms") * 1_000_000
            ),
            clock_offset_ns=(
                None if offset is None else read.integer(offset, "clock.monotonic_minus_wall_ns")
            ),
            clock_error_ns=read.natural(clock.get("error_ns", 0), "clock.error_ns"),
            topics=topics,
            topics_everywhere={
                name: _topic(read, facts, brokers, f"topics.{name}")
                for name, facts in everywhere.items()
            },
            brokers={str(name): str(value) for name, value in brokers.items()},
            failures=tuple(failures),
            trials=tuple(pairs),
            played=played,
            planned=planned,
            workloads=workloads,
            rounds=None if rounds is None else read.integer(rounds, "expectations.rounds"),
            rejected=read.integer(stored.get("rejected", 0), "history.rejected"),
            rejected_reasons=read.mapping(
                stored.get("rejected_reasons", {}), "history.rejected_reasons"
            ),
            rows=None if stored.get("rows") is None else _rows(read, stored["rows"]),
        )


def _rows(read: _Reader, rows: Any) -> dict[str, int]:
    """By kind; one without rows may be named or not."""
    counted = read.mapping(rows, "history.rows").items()
    found = {str(kind): read.natural(n, f"history.rows.{kind}") for kind, n in counted}
    return {kind: n for kind, n in found.items() if n}


_WORDS_OF_ARMS: Final = ("sut", "planes", "leaders")
_LISTS_OF_ARMS: Final = ("checks", "traces")


def _arms(read: _Reader, facts: Any) -> dict[str, Mapping[str, Any]]:
    """By arm, what is said of it; what checks read has the form that they take it to have. What is
    null says nothing."""
    found: dict[str, Mapping[str, Any]] = {}
    for arm, entry in read.mapping(facts, "arms").items():
        body = read.mapping(entry, f"arms.{arm}")
        for name in _WORDS_OF_ARMS:
            if body.get(name) is not None:
                read.word(body[name], f"arms.{arm}.{name}")
        for name in _LISTS_OF_ARMS:
            if body.get(name) is not None:
                read.strings(body[name], f"arms.{arm}.{name}")
        if body.get("not_judged") is not None:
            read.mapping(body["not_judged"], f"arms.{arm}.not_judged")
        if body.get("lag_max_ms") is not None:
            read.integer(body["lag_max_ms"], f"arms.{arm}.lag_max_ms")
        found[str(arm)] = body
    return found


def _planned(read: _Reader, entry: Any, name: str) -> Planned:
    body = read.mapping(entry, name)
    return Planned(
        id=str(body.get("id")),
        fault=str(body.get("fault")),
        at_ms=read.integer(body.get("at_ms", 0), f"{name}.at_ms"),
        duration_ms=read.integer(body.get("duration_ms", 0), f"{name}.duration_ms"),
    )


_DELIVERIES: Final = ("once", "idempotent", "once-a-leader")
_BEGINS: Final = ("start", "end")


def _workload(read: _Reader, entry: Any, name: str) -> Workload:
    body = read.mapping(entry, name)
    topics = read.mapping(body.get("topics", {}), f"{name}.topics")
    acks, allowed_ms = body.get("acks"), body.get("ack_timeout_ms")
    in_flight = body.get("in_flight")
    return Workload(
        process=str(body.get("process")),
        role=str(body.get("role")),
        topics={str(t): read.integers(p, f"{name}.topics.{t}") for t, p in topics.items()},
        nodes=read.integers(body.get("nodes", []), f"{name}.nodes"),
        acks=None if acks is None else read.integer(acks, f"{name}.acks"),
        delivery=read.one_of(body.get("delivery"), _DELIVERIES, f"{name}.delivery"),
        begins=read.one_of(body.get("begins"), _BEGINS, f"{name}.begins"),
        ack_timeout_ms=(
            None if allowed_ms is None else read.integer(allowed_ms, f"{name}.ack_timeout_ms")
        ),
        group=None if body.get("group") is None else str(body["group"]),
        in_flight=None if in_flight is None else read.integer(in_flight, f"{name}.in_flight"),
    )


def _fault_names(read: _Reader, faults: Any) -> tuple[str, ...]:
    """Faults are given by name, or as plan entries that have one."""
    names = []
    for number, entry in enumerate(read.sequence(faults, "expectations.faults")):
        name = entry.get("fault") if isinstance(entry, Mapping) else entry
        if not isinstance(name, str):
            raise HistoryError(
                f"{read.where}: field 'expectations.faults[{number}]': {entry!r}; "
                "allowed: a fault's name, or an object with a field 'fault'"
            )
        names.append(name)
    return tuple(names)


UNIQUE: Final = "unique"
_LONGEST_RUN_MS: Final = 24 * 3600 * 1000
_RETENTION_MS: Final = {
    "log.retention.ms": 1,
    "log.retention.minutes": 60_000,
    "log.retention.hours": 3_600_000,
}
"""Kafka's own precedence: the finest unit that is set counts."""


def _expires(configs: Mapping[str, Any], brokers: Mapping[str, Any]) -> bool:
    """Whether retention was set so small, by time or by size, that it may bite within a run. What
    cannot be read as a number counts as small: then nobody is accused."""
    size = configs.get("retention.bytes", brokers.get("log.retention.bytes", -1))
    unit, value = 1, configs.get("retention.ms")
    for name, unit_ms in _RETENTION_MS.items():
        if value is None and brokers.get(name) is not None:
            unit, value = unit_ms, brokers[name]
    try:
        by_time = value is not None and 0 <= int(value) * unit < _LONGEST_RUN_MS
        return by_time or int(size) >= 0
    except (TypeError, ValueError):
        return True


def _limit(value: Any) -> int | None:
    """None: none, or one that cannot be read."""
    try:
        return None if value is None or int(value) < 0 else int(value)
    except (TypeError, ValueError):
        return None


def segment_ms_of(configs: Mapping[str, Any]) -> int | None:
    """How old a segment of a topic with these settings of its own may be; None: nobody says, or it
    is drawn."""
    return None if "segment.jitter.ms" in configs else _limit(configs.get("segment.ms"))


def dated_by_brokers(configs: Mapping[str, Any], brokers: Mapping[str, Any]) -> bool:
    """Whether brokers with those settings date what they append to a topic with these."""
    default = brokers.get("log.message.timestamp.type")
    return bool(configs.get("message.timestamp.type", default) == "LogAppendTime")


def _topic(read: _Reader, facts: Any, brokers: Mapping[str, Any], name: str) -> TopicFacts:
    """Kafka's own configuration names, at the top or under ``configs``."""
    body = read.mapping(facts, name)
    own = read.mapping(body.get("configs", {}), f"{name}.configs")
    configs = {**body, **own}
    unclean = str(configs.get("unclean.leader.election.enable", "false")).lower() == "true"
    try:
        min_isr = int(configs.get("min.insync.replicas", 1))
    except (TypeError, ValueError) as error:
        raise HistoryError(
            f"{read.where}: field '{name}.min.insync.replicas': {error}; allowed: an integer"
        ) from error
    is_compacted = "compact" in str(configs.get("cleanup.policy", "delete"))
    kept_ms = brokers.get("log.cleaner.delete.retention.ms", _LONGEST_RUN_MS)
    erased_ms = configs.get("delete.retention.ms", kept_ms)
    own_ms, own_bytes = (
        None if is_compacted else _limit(configs.get(name))
        for name in ("retention.ms", "retention.bytes")
    )
    return TopicFacts(
        unclean_leader_election=unclean,
        min_insync_replicas=min_isr,
        compacted=is_compacted,
        forgets_erased=(_limit(erased_ms) or 0) < _LONGEST_RUN_MS,
        unique_keys=body.get("keys") == UNIQUE,
        expires=_expires(configs, brokers),
        retention_ms=own_ms,
        retention_bytes=own_bytes,
        segment_ms=segment_ms_of(configs),
        log_append_time=dated_by_brokers(configs, brokers),
        assignment=_assignment(read, body.get("assignment") or {}, f"{name}.assignment"),
        configs={str(key): str(value) for key, value in own.items()},
    )


def _assignment(read: _Reader, facts: Any, name: str) -> dict[int, tuple[int, ...]]:
    try:
        return {int(p): tuple(map(int, r)) for p, r in read.mapping(facts, name).items()}
    except (TypeError, ValueError) as error:
        raise HistoryError(
            f"{read.where}: field '{name}': {error}; allowed: brokers by partition"
        ) from error


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads fields, naming file and field when one has the wrong form."""

    where: str

    def mapping(self, value: Any, name: str) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        raise self._error(name, value, "an object")

    def sequence(self, value: Any, name: str) -> list[Any]:
        if isinstance(value, list | tuple):
            return list(value)
        raise self._error(name, value, "a list")

    def strings(self, value: Any, name: str) -> tuple[str, ...]:
        items = self.sequence(value, name)
        if all(isinstance(item, str) for item in items):
            return tuple(items)
        raise self._error(name, value, "a list of strings")

    def natural(self, value: Any, name: str) -> int:
        if self.integer(value, name) >= 0:
            return int(value)
        raise self._error(name, value, "an integer from 0 on")

    def one_of(self, value: Any, words: Sequence[str], name: str) -> str | None:
        if value is None or value in words:
            return value if value is None else str(value)
        raise self._error(name, value, f"one of {', '.join(words)}, or null")

    def word(self, value: Any, name: str) -> str:
        if isinstance(value, str):
            return value
        raise self._error(name, value, "a string")

    def integers(self, value: Any, name: str) -> tuple[int, ...]:
        return tuple(self.integer(item, name) for item in self.sequence(value, name))

    def integer(self, value: Any, name: str) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self._error(name, value, "an integer")

    def _error(self, name: str, value: Any, allowed: str) -> HistoryError:
        return HistoryError(f"{self.where}: field {name!r}: {value!r}; allowed: {allowed}")
