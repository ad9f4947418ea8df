"""DatalogMTL, as MeTeoR writes it: rules about what holds when, and facts with their times."""
