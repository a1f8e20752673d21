"""A cluster that runs already: ``--sut=external:cluster.yaml``.

Somebody else started it, and goes on using it: what is here says what the harness may do to it, and
keeps it to that.

form    what its file may say; read with the same care as a description (`description_file`)
ways    how a broker is handled: commands that its file gives, and asking it whether they worked
own     topics of the run's own, under a random name, and nothing else touched
here    which faults of a plan can be played there, and why not
asked   what its brokers tell whoever asks, by requests that only read; what stands in the way
system  all this as a system under test
owed    what is to be undone, on disk, for the case that the harness is killed
probe   ``biplane probe``: what could be run and judged there

The cluster itself: `harness.cluster.external`. Its clients' way: `harness.frames.addresses`.
"""
