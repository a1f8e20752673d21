"""`biplane mutants --generate`: bugs that nobody thought of, drawn by seed from the source.

    operators   where a source file can be changed, and how: comparisons, conditions, branches,
                calls left out, calls exchanged
    overlay     a copy of the broker's package with one such change, which tells whether the changed
                place was reached and whether it ever made a difference
    power       what notices each: unit tests, scenarios and their rules; what survives
    page        the table

Hand-picked bugs (`nodes.mutants`) show that a rule can fire; these show what no rule looks at.
"""
