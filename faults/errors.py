"""The one error of bad plans. It lives apart so that faults and the plan may both raise it."""

from __future__ import annotations


class PlanError(ValueError):
    """A plan that cannot be run. The message names file, entry, field and what is allowed."""

    def __init__(
        self,
        says: str,
        *,
        file: str | None = None,
        entry: str | None = None,
        field: str | None = None,
    ) -> None:
        self.says, self.file, self.entry, self.field = says, file, entry, field
        where = [
            text
            for text, known in (
                (f"{file}", file is not None),
                (f"entry {entry!r}", entry is not None),
                (f"field {field!r}", field is not None),
            )
            if known
        ]
        super().__init__(": ".join([", ".join(where), says]) if where else says)

    def within(self, *, file: str | None = None, entry: str | None = None) -> PlanError:
        """The same error, told where it happened by someone who knows more."""
        return PlanError(
            self.says,
            file=self.file or file,
            entry=self.entry or entry,
            field=self.field,
        )
