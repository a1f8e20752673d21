"""Floods: load on a broker's data plane from worker processes of their own.

`base` is a flood's life; `produce`, `metadata`, `fetch` and `connections` say what is sent;
`worker` is the process, `engine` its loop, `requests` the pre-encoded frames.
"""
