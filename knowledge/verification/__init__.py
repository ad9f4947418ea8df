"""The closure held against that of owlrl: a sample, owlrl corrected for its known errors, the differences."""
