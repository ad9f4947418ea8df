"""Verification of the reasoner by comparison with owlrl: a sample of triples, owlrl with its known errors corrected,
and the differences between the two closures."""
