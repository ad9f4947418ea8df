"""Files on disks, in S3, Google Cloud Storage, Azure and HDFS."""
