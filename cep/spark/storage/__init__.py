"""Files of a checkpoint: put on disk whole, held by one run at a time, and those that Spark itself writes."""
