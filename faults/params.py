"""Reading a fault's parameters: each is taken once, by name, with its type, range and default.

A parameter that nobody took is an error (a misspelt name would otherwise silently mean the
default); `Params.done` checks that. All errors are `PlanError` and name entry, field and what is
allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from faults.errors import PlanError
from faults.protocol import Entry

_REQUIRED: Final = object()


class Params:
    """The parameters of one plan entry. Single use: build a fault from it, then call `done`."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._values: Mapping[str, Any] = entry.params
        self._known: list[str] = []

    def error(self, name: str, says: str) -> PlanError:
        return PlanError(says, entry=self._entry.id, field=f"params.{name}")

    def _take(self, name: str, default: Any) -> Any:
        self._known.append(name)
        value = self._values.get(name)
        if value is None:
            if default is _REQUIRED:
                raise self.error(name, "is required")
            return default
        return value

    def integer(
        self, name: str, default: Any = _REQUIRED, *, low: int = 0, high: int = 2**31 - 1
    ) -> int:
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(name, f"{value!r} is not allowed; allowed: an integer {low}..{high}")
        return value

    def number(self, name: str, default: Any = _REQUIRED, *, low: float, high: float) -> float:
        value = self._take(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise self.error(name, f"{value!r} is not allowed; allowed: a number {low}..{high}")
        return float(value)

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise self.error(name, f"{value!r} is not allowed; allowed: true, false")
        return value

    def text(self, name: str, default: Any = _REQUIRED) -> str:
        value = self._take(name, default)
        if not isinstance(value, str) or not value:
            raise self.error(name, f"{value!r} is not allowed; allowed: a non-empty string")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._take(name, None) is None else self.text(name)

    def choice(self, name: str, allowed: Iterable[str], default: Any = _REQUIRED) -> str:
        value = self._take(name, default)
        options = list(allowed)
        if value not in options:
            raise self.error(name, f"{value!r} is not allowed; allowed: {', '.join(options)}")
        return str(value)

    def choices(self, name: str, allowed: Iterable[str], default: Any = _REQUIRED) -> list[str]:
        """One or several of ``allowed``: a string or a list of strings."""
        value = self._take(name, default)
        options = list(allowed)
        several = [value] if isinstance(value, str) else value
        if (
            not isinstance(several, Sequence)
            or not several
            or any(one not in options for one in several)
        ):
            raise self.error(
                name, f"{value!r} is not allowed; allowed: one or several of {', '.join(options)}"
            )
        return [str(one) for one in several]

    def texts(self, name: str, default: Any = _REQUIRED) -> list[str]:
        """One or several strings or integers (targets), as strings."""
        value = self._take(name, default)
        several = [value] if isinstance(value, str | int) else value
        if (
            not isinstance(several, Sequence)
            or not several
            or any(isinstance(one, bool) or not isinstance(one, str | int) for one in several)
        ):
            raise self.error(
                name, f"{value!r} is not allowed; allowed: a target, or a list of them"
            )
        return [str(one) for one in several]

    def table(self, name: str, default: Any = _REQUIRED) -> dict[str, int]:
        """A map of integers (a toxic's attributes)."""
        value = self._take(name, default)
        if not isinstance(value, Mapping) or any(
            not isinstance(k, str) or isinstance(v, bool) or not isinstance(v, int)
            for k, v in value.items()
        ):
            raise self.error(name, f"{value!r} is not allowed; allowed: an object of integers")
        return dict(value)

    def done(self) -> None:
        """Refuse parameters that the fault does not know."""
        for name in self._values:
            if name not in self._known:
                raise self.error(name, f"is unknown; allowed: {', '.join(self._known) or 'none'}")
