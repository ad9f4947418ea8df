"""Incoming and outgoing messages of brokers and connections: Kafka, MQTT, SensorThings, TCP."""
