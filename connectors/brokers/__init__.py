"""Live inputs and outputs: Kafka, MQTT, SensorThings, TCP."""
