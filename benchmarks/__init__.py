"""The figures: what Holdfast does on this machine, beside what the machine itself can do, measured in the same run.

    figures      what a figure is, and how rounds become one
    scales       how much work each measurement does, in full and in a hurry
    subjects     the workflows that are measured
    databases    files to measure in, and raw connections to them
    ceiling      bare group commit: what the database can do without Holdfast
    throughput  steps  starts  replays  memory  claims  idle      one measurement each
    listener  sleepers                                            their child processes
    machine  tables                                               where it was measured / how it is shown

Nothing here asserts a time: a machine may be busy. `python -m benchmarks` prints one table and writes one JSON file.
"""
