"""What people look at: one HTML page a run, and the terminal's summary."""

from harness.report.page import write

__all__ = ["write"]
