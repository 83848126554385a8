"""The same work by other engines, side by side on one Postgres server in one run.

    environments   throw-away environments for what the package registries offer
    programs/      one short program for each engine: four steps a run, a given number of runs at once
    contests       rounds in turns, each in its own database
    plots          a picture of the results

`python -m benchmarks.peers` prints a table and writes a JSON file and a picture.
"""
