"""The checkpoint of a run, the states of its buckets, and their migration to another program."""
