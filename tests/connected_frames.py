"""A process that runs rules in a session of Spark Connect: `python -m tests.connected_frames FOLDER`.

The folder contains `rules.cep`, and `rows` with Parquet files of the event `reading`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from cep.core.errors import CepError
from cep.spark import Rules


def main(folder: Path) -> None:
    settings = {
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.session.timeZone": "Asia/Kathmandu",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    rules, order = Rules.from_file(folder / "rules.cep"), {"reading": "number"}
    rows = spark.read.parquet(str(folder / "rows"))
    for name, frame in rules.detect({"reading": rows}, order=order, buckets=2).items():
        frame.write.parquet(str(folder / "static" / name))
    moving = spark.readStream.schema(rows.schema).parquet(str(folder / "rows"))
    stream = rules.over({"reading": moving}, order=order, lateness="4 s", buckets=2)
    writer = stream.frame("gust").writeStream.trigger(availableNow=True).format("parquet")
    place = str(folder / "streaming" / "gust")
    writer.option("checkpointLocation", str(folder / "state")).start(place).awaitTermination()
    try:
        stream.start(output=folder / "out", checkpoint=folder / "own")
    except CepError as error:
        print(error)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
