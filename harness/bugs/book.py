"""A bug's file: ``bugs/<ID>.toml``. All that is known of it, and how it is made to happen.

    id = "KAFKA-9839"
    title = "..."                       # one line
    says = "..."                        # what went wrong, in two sentences
    sut = "kafka-zk"                    # or kafka-kraft
    releases = "2.2.0 to 2.5.0"         # that have it, for people
    broken = "2.5.0"                    # the one it is shown on
    mended = "2.5.1"                    # the one it is shown to be gone from; none: still open
    planes = "single"
    leader_changes = true               # whether the plan moves leaders
    found_by = ["recovery: stuck"]      # one of these must be broken: "promise: rule"
    budget_s = 600                      # for finding it on the broken release

    [mended_config]                     # where it is a setting that mends it
    [config]                            # of every broker
    [load]                              # see `Load`
    [topics.t]                          # see `TopicSpec`
    [[plan]]                            # entries as in plan.json: id, fault, at_ms, duration_ms

``chaos_s`` is the least that a run's chaos lasts: it goes on until every fault has been healed, and
a story among them (faults/staged.py) takes the time that it takes.

Faults are aimed at roles (faults/targets.py), never at a broker's number.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from faults.plan import Plan, PlanError
from harness.sut.protocol import Planes

FOLDER: Final = Path("bugs")
NOT_SHOWN: Final = "NOT-SHOWN.md"
"""In that folder: candidates that could not be shown, and what was tried."""
_NAME: Final = re.compile(r"[A-Z]+-\d+[a-z]?\Z")
_FOUND_BY: Final = re.compile(r"[a-z-]+: \S.*\Z")
_WORDS: Final = ("title", "says", "releases", "found_by", "budget_s")
LEADERS: Final = ("spread", "victim", "controller", "apart")
MAY_BE_NONE: Final = ("acks_one_per_s", "static_members")


class BugError(ValueError):
    """A bug's file cannot be meant; the message names file, field and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """``leader``: who leads its partitions at first: brokers in turn, the victim (a broker that is
    not the controller), or the controller; apart: in turn those that are not the controller, which
    has no part in it."""

    partitions: int = 1
    replicas: int = 3
    leader: str = "spread"
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """``topic``: the one that is written to, read, and whose leaders are asked for."""

    topic: str
    acks_all_per_s: float = 300.0
    acks_one_per_s: float = 75.0
    """0: nobody writes with acks=1, whose records may be lost lawfully."""
    static_members: int = 0
    """Of one group, each with a name of its own (group.instance.id), by which it leaves and comes
    back all the while."""
    chaos_s: float = 20.0
    settle_s: float = 9.0
    quiesce_s: float = 20.0
    session_timeout_ms: int = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """See the module."""

    id: str
    title: str
    says: str
    sut: str
    releases: str
    broken: str
    mended: str | None
    planes: Planes
    found_by: tuple[str, ...]
    budget_s: float
    load: Load
    topics: Mapping[str, TopicSpec]
    plan: Plan
    digest: str
    """Of all that is played: what was played by another file says nothing of this one."""
    leader_changes: bool = True
    config: Mapping[str, str] = field(default_factory=dict)
    mended_config: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """No release is without it: only other settings are."""
        return self.mended is None or self.mended == self.broken

    @property
    def checks(self) -> tuple[str, ...]:
        """The promises that its finding rests on."""
        return tuple(dict.fromkeys(rule.partition(":")[0] for rule in self.found_by))


def load_all(folder: Path = FOLDER) -> dict[str, Bug]:
    """Every bug by its id, in their order. Raises `BugError`."""
    files = sorted(folder.glob("*.toml"), key=lambda path: _order(path.stem))
    if not files:
        raise BugError(f"{folder}: no bug's file in it; allowed: a folder of *.toml")
    return {bug.id: bug for bug in map(load, files)}


def not_shown(folder: Path = FOLDER) -> str:
    """Nothing where there is no such file."""
    path = folder / NOT_SHOWN
    return path.read_text() if path.is_file() else ""


def load(path: Path) -> Bug:
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BugError(f"{path}: {error}") from None
    try:
        bug = _bug(data)
    except BugError as error:
        raise BugError(f"{path}: {error}") from None
    except PlanError as error:
        raise error.within(file=str(path)) from None
    if path.stem != bug.id:
        raise BugError(f"{path}: id: {bug.id!r}; allowed: the file's name")
    return bug


def _order(stem: str) -> tuple[str, int]:
    project, _, number = stem.partition("-")
    return project, int(re.sub(r"\D", "", number) or 0)


def _digest(data: Mapping[str, Any]) -> str:
    """Of what is played; not of what is said of it, or looked for."""
    played = {name: value for name, value in data.items() if name not in _WORDS}
    return hashlib.sha256(json.dumps(played, sort_keys=True).encode()).hexdigest()[:12]


def _bug(data: dict[str, Any]) -> Bug:
    rest = dict(data)
    entries = rest.pop("plan", [])
    topics = {name: _make(TopicSpec, spec, f"topics.{name}") for name, spec in _topics(rest)}
    load_ = _make(Load, rest.pop("load", {}), "load")
    texts = {name: _text(rest, name) for name in ("id", "title", "says", "releases", "broken")}
    mended = _text(rest, "mended") if "mended" in rest else None
    found_by = rest.pop("found_by", None)
    if not isinstance(found_by, list) or not found_by or not all(map(_is_rule, found_by)):
        raise BugError('found_by: allowed: a list of "promise: rule"')
    configs = {name: _config(rest.pop(name, {}), name) for name in ("config", "mended_config")}
    leader_changes = rest.pop("leader_changes", True)
    if not isinstance(leader_changes, bool):
        raise BugError(f"leader_changes: {leader_changes!r}; allowed: true, false")
    planes, budget_s = rest.pop("planes", "single"), rest.pop("budget_s", 600)
    sut = _text(rest, "sut")
    if rest:
        allowed = ", ".join(f.name for f in fields(Bug))
        raise BugError(f"{next(iter(rest))}: is unknown; allowed: {allowed}")
    if not _NAME.match(texts["id"]):
        raise BugError(f"id: {texts['id']!r}; allowed: such as KAFKA-9839")
    if sut not in ("kafka-zk", "kafka-kraft"):
        raise BugError(f"sut: {sut!r}; allowed: kafka-zk, kafka-kraft")
    if planes not in list(Planes):
        raise BugError(f"planes: {planes!r}; allowed: {', '.join(Planes)}")
    if load_.topic not in topics:
        raise BugError(f"load.topic: {load_.topic!r}; allowed: {', '.join(topics)}")
    if isinstance(budget_s, bool) or not isinstance(budget_s, int | float) or budget_s <= 0:
        raise BugError(f"budget_s: {budget_s!r}; allowed: seconds")
    return Bug(
        **texts,
        mended=mended,
        digest=_digest(data),
        leader_changes=leader_changes,
        sut=sut,
        planes=Planes(planes),
        found_by=tuple(found_by),
        budget_s=float(budget_s),
        load=load_,
        topics=topics,
        plan=Plan.from_dict({"seed": 0, "entries": entries}),
        config=configs["config"],
        mended_config=configs["mended_config"],
    )


def _topics(rest: dict[str, Any]) -> list[tuple[str, Any]]:
    topics = rest.pop("topics", None)
    if not isinstance(topics, dict) or not topics:
        raise BugError("topics: allowed: at least one [topics.NAME]")
    return list(topics.items())


def _make(kind: Any, values: Any, where: str) -> Any:
    """A dataclass from a table, each value of its default's kind."""
    known = {f.name: f for f in fields(kind)}
    if not isinstance(values, dict):
        raise BugError(f"{where}: allowed: a table")
    for name, value in values.items():
        if name not in known:
            raise BugError(f"{where}.{name}: is unknown; allowed: {', '.join(known)}")
        if name == "configs":
            _config(value, f"{where}.configs")
        elif name in ("topic", "leader"):
            if not isinstance(value, str) or (name == "leader" and value not in LEADERS):
                allowed = ", ".join(LEADERS) if name == "leader" else "a topic's name"
                raise BugError(f"{where}.{name}: {value!r}; allowed: {allowed}")
        elif isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise BugError(f"{where}.{name}: {value!r}; allowed: a number")
        elif value == 0 and name not in MAY_BE_NONE:
            raise BugError(f"{where}.{name}: {value!r}; allowed: a number above 0")
    try:
        return kind(**values)
    except TypeError:
        raise BugError(f"{where}: topic: is required") from None


def _config(values: Any, where: str) -> dict[str, str]:
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        raise BugError(f"{where}: allowed: a table of strings")
    return dict(values)


def _text(rest: dict[str, Any], name: str) -> str:
    value = rest.pop(name, None)
    if not isinstance(value, str) or not value.strip():
        raise BugError(f"{name}: {value!r}; allowed: a text")
    return value.strip()


def _is_rule(value: Any) -> bool:
    return isinstance(value, str) and bool(_FOUND_BY.match(value))
