"""What a run goes on from: its checkpoint, the states of its buckets, and how they pass to another program."""
