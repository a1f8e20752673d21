"""An entity class of kio's whose long durations are plain milliseconds.

kio makes a timedelta of them, which holds a third of a million years at most, and refuses the frame
of whoever says more (OffsetCommit 2 to 4 may ask for any time). Durations of 32 bits always fit.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any, Final, get_type_hints

from kio.static.primitive import i64

_LONG: Final = "timedelta_i64"
_FORM: Final = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__",
                "__doc__", "__module__")  # fmt: skip


def plain(entity_class: Any) -> Any:
    """The class, or one that differs from it in that alone. Looks at its own fields only: no nested
    structure of a request has such a field."""
    specs = dataclasses.fields(entity_class)
    if all(spec.metadata.get("kafka_type") != _LONG for spec in specs):
        return entity_class
    hints = get_type_hints(entity_class)
    made: list[tuple[str, Any, Any]] = []
    for spec in specs:
        kind, metadata = hints[spec.name], dict(spec.metadata)
        default: Any = spec.default
        if metadata.get("kafka_type") == _LONG:
            kind, metadata["kafka_type"] = i64, "int64"
            default = _milliseconds(default)
        field: Any = dataclasses.field(metadata=metadata, default=default)
        made.append((spec.name, kind, field))
    return dataclasses.make_dataclass(
        entity_class.__name__,
        made,
        namespace={name: getattr(entity_class, name) for name in _FORM},
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _milliseconds(duration: timedelta) -> i64:
    return i64(duration // timedelta(milliseconds=1))
