"""Genuine bugs of genuine releases: read from ``bugs/*.toml``, played, told on a page.

book     one file, one bug: what it says, checked
scenario a bug as a scenario that any system can play
play     the broken release until it is found, then the mended one
record   docs/track-record.md
"""
