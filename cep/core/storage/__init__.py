"""Files wherever they are: on a disk, in S3, Google Cloud Storage, Azure, HDFS."""
