"""One script that measures fedkin on an accelerator, in parts, by worth.

    python -m benchmarks.gpu [--minutes 10] [--parts abcd] [--results FILE] [--page FILE]
    python -m benchmarks.gpu --only-page
    python -m benchmarks.gpu --small --results /tmp/small.json

1. ``device.py`` checks the device and runs the tests of accelerators.
2. ``rounds.py`` (a): rounds by the number of lanes, a PyTorch loop, and ``torch.compile``.
3. ``benchmarks/flute.py`` (b): rounds with the settings of FLUTE's table.
4. ``server.py`` (c): scoring, cold starts and the server's maths at a million parameters.
5. ``paper_run.py`` (d): a run of FlexCFL's Table III at full length.

Each measurement is stored when it is made. The script continues with the missing ones, until its
minutes are over. ``page.py`` writes the tables of docs/gpu.md from the stored results. ``--small``
does everything in its smallest form, on any device. The script runs from a checkout, without an
installed fedkin.
"""
