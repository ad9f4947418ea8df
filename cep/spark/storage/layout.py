"""What is where: names of files and folders in a checkpoint, and in the folder of a sink. They stay as they are."""

from __future__ import annotations

CHECKPOINT = "semcep.json"
"""What the checkpoint is of (`cep.spark.state.checkpoint`)."""

FILES = "files.jsonl"
"""The files that were read, numbered (`cep.spark.source.file_list`)."""

CHANGES = "changes.jsonl"
"""All changes of the knowledge that were found (`cep.spark.source.changes`)."""

INPUTS = "input-"
"""Before the place of a live input: a folder of what it has received, or where it has begun."""

LOCK, TURN = "lock", "turn"
"""Held by the run that has the checkpoint (`cep.spark.storage.lock`)."""

SPARK = "spark"
"""The folder of Spark's own files (`cep.spark.storage.spark_files`)."""

BUCKETS = "buckets"
"""The folder of the states of buckets (`cep.spark.state.bucket_states`)."""

OUTGOING = "outgoing"
"""The folder of the sink, where derived events go on to a broker (`cep.spark.sink.relay`)."""

STOP = "stop"
"""While a checkpoint holds this file, sources give nothing (`cep.spark.driver.running`)."""

SPARK_LOG = "spark.log"
"""What Spark's processes print; one older file of the same size is `spark.log.1`."""

SINK_LOG = "_spark_metadata"
"""In the folder of a sink: which of its files count (`cep.spark.sink.commit_log`)."""

PROBES = (".room-", "..room-")
"""What names of files begin with by which it is tried whether a folder takes any; the second while one is written."""
