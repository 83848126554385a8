"""The same work by other engines, side by side on one Postgres server in one run.

    environments   throw-away environments, with what the registries have
    programs/      one short program for each engine: four steps a run, so many runs at once
    contests       rounds in turns, each in a database of its own
    plots          a picture of it

`python -m benchmarks.peers` prints a table and writes a JSON file and a picture.
"""
