"""Alert feeds: what alerting systems read, and what is sent to them, all from the outbox."""
