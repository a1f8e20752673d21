"""How findings become a verdict.

promise   what must hold, said once: its rules, its evidence, its blind spots
outcome   what judging one promise hands over
excuses   what may excuse a finding, and who must have witnessed it
tally     suspects judged where they are, counted, and the first few shown
witness   the few rows that prove a violation, in order of time
verdict   valid, invalid, unknown; their merge; results.json
compare   ratios between arms
"""
