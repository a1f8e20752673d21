"""`biplane compare`: what do planes (or systems) change? Rounds, their figures, one page.

rounds    plays scenarios again and again, arms in turn, each round a run of its own
figures   the numbers of one round and arm, from its stored history and results
page      medians, ranges and ratios over the rounds, in Markdown with a picture
play      begins or continues a comparison: what the command does
"""

from harness.studies.compare.page import write_page
from harness.studies.compare.play import play_comparison
from harness.studies.compare.rounds import Comparison

__all__ = ["Comparison", "play_comparison", "write_page"]
