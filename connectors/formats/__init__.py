"""The supported record formats and their readers: text tables, JSON, packs of sensor data, Parquet, RDF, and the line
syntax of DatalogMTL and RTEC."""
