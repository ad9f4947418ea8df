"""The checkpoint of a run, the states of its buckets, and how they pass to another program."""
