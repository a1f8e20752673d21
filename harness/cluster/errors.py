"""Errors of a cluster.

ClusterError            the harness could not do what it was asked; the run is `unknown`
└── StateUnreadable     ZooKeeper did not answer: nothing can be said of the cluster
"""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster did not reach a state in time, or could not be asked."""


class StateUnreadable(ClusterError):
    """The committed state could not be read."""
