"""DatalogMTL in MeTeoR's syntax: rules that say when atoms hold, and facts with intervals."""
