"""A soak: round after round of a scenario, each with a seed of its own, for hours.

    rounds.py      plays and judges one round after the other, and knows when to end
    account.py     what came of them: soak.json, written anew after each round
    keeping.py     of which rounds the evidence stays, and what that needs of the disk
    words.py       the terminal's lines
    page.py        soak.html

A round is an ordinary run in its ordinary place (``store/<scenario>/<run id>``), so that everything
that reads runs reads it; the soak itself is ``store/soak/<when>-<seed>/``.
"""
