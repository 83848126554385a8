"""The figures: what Holdfast does on this machine, beside what the machine itself can do, measured in the same run.

    figures      a figure, and how rounds make one
    scales       how much work each measurement does, in full and in a hurry
    subjects     the workflows that are measured
    databases    what a measurement needs of any database
    sqlite_files  postgres_servers                                       the two databases, each with its raw writers
    backlogs     databases full of parked and finished runs
    ceiling      bare group commit: what the database can do without Holdfast
    throughput  fleet  steps  starts  replays  memory  claims  idle      one measurement each
    children  listener  member  sleepers                                 their child processes
    machine  tables  pages                                               where it was measured / how it is shown
    peers        the same work by other engines, side by side

Nothing here asserts a time: a machine may be busy. `python -m benchmarks` prints one table and writes one JSON file.
"""
