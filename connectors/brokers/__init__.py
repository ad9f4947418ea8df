"""Brokers and connections: Kafka, MQTT, TCP; messages that come in, and those that go out."""
