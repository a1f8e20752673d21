"""From live files to the stored history. The schema itself lives in checkers/history.py."""

from harness.history.finish import FinishReport, finish_trial

__all__ = ["FinishReport", "finish_trial"]
