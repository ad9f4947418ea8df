"""Why an event was derived, and why it was not."""
