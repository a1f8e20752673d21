"""What one workload process is to do, as data (JSON), and how roles read their parameters.

A workload process plays one role (producer, direct-producer, joint-producer, consumer,
group-consumer, group-stranger, group-keeper, group-riser, group-couple, group-pair, group-absent,
metadata-reader, offset-reader, record-deleter, refused-asker, prober), appends its own live history
file and obeys stop. The spec is all it is told.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

ROLES: Final = (
    *("producer", "direct-producer", "joint-producer"),
    *("consumer", "group-consumer"),
    *("group-stranger", "group-keeper", "group-riser", "group-couple", "group-pair"),
    "group-absent",
    *("metadata-reader", "offset-reader", "record-deleter", "refused-asker", "prober"),
)
P = TypeVar("P")


class WorkloadError(ValueError):
    """A spec that cannot be run (names spec, field, what is allowed), or a process that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """One process. ``process`` is its name in the history, ``output`` its live JSONL file.

    ``bootstrap``: client listeners by node id, as the workload is to reach them (proxies, usually).
    ``params``: the role's own, see the ``Params`` dataclass in its module.
    ``duration_ms``: the process ends by itself after this long (a bound, not the usual way to end).
    """

    role: str
    process: str
    output: str
    bootstrap: Mapping[int, str]
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    duration_ms: int = 3_600_000

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise WorkloadError(
                f"workload {self.process!r}, field 'role': {self.role!r} is not allowed; "
                f"allowed: {', '.join(ROLES)}"
            )
        for node, address in self.bootstrap.items():
            _, _, port = address.rpartition(":")
            if not port.isdigit():
                raise WorkloadError(
                    f"workload {self.process!r}, field 'bootstrap': {address!r} of node {node} is "
                    "not allowed; allowed: host:port"
                )

    def address(self, node: int) -> tuple[str, int]:
        host, _, port = self.bootstrap[node].rpartition(":")
        return host, int(port)

    @property
    def bootstrap_servers(self) -> str:
        """As librdkafka wants it."""
        return ",".join(self.bootstrap.values())

    def to_json(self) -> str:
        data = dataclasses.asdict(self)
        data["bootstrap"] = {str(node): address for node, address in self.bootstrap.items()}
        return json.dumps(data, indent=2)

    @classmethod
    def load(cls, path: Path) -> WorkloadSpec:
        try:
            data = json.loads(path.read_text())
            data["bootstrap"] = {int(node): address for node, address in data["bootstrap"].items()}
            return cls(**data)
        except (OSError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise WorkloadError(f"{path}: not a workload spec: {error}") from error

    def read_params(self, kind: type[P]) -> P:
        """The role's parameters as its dataclass; unknown, missing or mistyped ones are refused."""
        hints = get_type_hints(kind)
        names = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
        for name in self.params:
            if name not in names:
                raise self.error(name, f"is unknown; allowed: {', '.join(names)}")
        values: dict[str, Any] = {}
        for name, declared in names.items():
            if name not in self.params:
                if (
                    declared.default is dataclasses.MISSING
                    and declared.default_factory is dataclasses.MISSING
                ):
                    raise self.error(name, "is required")
                continue
            try:
                values[name] = _converted(self.params[name], hints[name])
            except (TypeError, ValueError) as error:
                raise self.error(name, str(error)) from None
        try:
            return kind(**values)
        except ValueError as error:
            raise WorkloadError(f"workload {self.process!r} ({self.role}): {error}") from None

    def error(self, name: str, says: str) -> WorkloadError:
        """What is wrong with a parameter."""
        return WorkloadError(
            f"workload {self.process!r} ({self.role}), field 'params.{name}': {says}"
        )


def _converted(value: Any, hint: Any) -> Any:
    """JSON has neither tuples nor integer keys: bring them back, refuse what does not fit."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        return _converted(value, next(a for a in args if a is not type(None)))
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{value!r} is not allowed; allowed: a list")
        return tuple(_converted(one, args[0]) for one in value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise TypeError(f"{value!r} is not allowed; allowed: an object")
        return {
            (int(k) if args[0] is int else str(k)): _converted(v, args[1]) for k, v in value.items()
        }
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (
        not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)
    ):
        raise TypeError(f"{value!r} is not allowed; allowed: {hint.__name__}")
    return value
