"""From rules to safe, binary, shared, keyed goals-to-be: all static errors end here."""
