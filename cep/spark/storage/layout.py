"""The layout on disk: names of files and folders in a checkpoint and in the folder of a sink, which never change."""

from __future__ import annotations

CHECKPOINT = "semcep.json"
"""The program and options of the checkpoint (`cep.spark.state.checkpoint`)."""

FILES = "files.jsonl"
"""The files that were read, numbered (`cep.spark.source.file_list`)."""

CHANGES = "changes.jsonl"
"""All changes of the knowledge that were found (`cep.spark.source.changes`)."""

INPUTS = "input-"
"""With the place of a live input behind it: a folder with what it has received, or where it began."""

LOCK, TURN = "lock", "turn"
"""Held by the run that has the checkpoint (`cep.spark.storage.lock`)."""

SPARK = "spark"
"""The folder of Spark's own files (`cep.spark.storage.spark_files`)."""

BUCKETS = "buckets"
"""The folder of the states of buckets (`cep.spark.state.bucket_states`)."""

OUTGOING = "outgoing"
"""The folder of the sink where derived events go to a broker (`cep.spark.sink.relay`)."""

STOP = "stop"
"""While a checkpoint holds this file, sources give nothing (`cep.spark.driver.running`)."""

SPARK_LOG = "spark.log"
"""What Spark's processes print; one older file of the same size is `spark.log.1`."""

SINK_LOG = "_spark_metadata"
"""In the folder of a sink: which of its files count (`cep.spark.sink.commit_log`)."""

PROBES = (".room-", "..room-")
"""The prefixes of files that are written only to see whether a folder takes files; the second is of temporary ones."""
