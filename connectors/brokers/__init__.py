"""Brokers and connections, Kafka, MQTT and TCP: incoming and outgoing messages."""
