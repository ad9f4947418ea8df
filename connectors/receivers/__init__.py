"""Alerts for other systems: feeds that these systems read, and messages that are sent to receivers."""
