"""From live files to the stored history. The schema itself lives in checkers/history/schema.py."""

from harness.history.finish import FinishReport, LiveTrial, finish

__all__ = ["FinishReport", "LiveTrial", "finish"]
