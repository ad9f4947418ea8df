"""The command `cep`: its options, its loop over the input, and what it prints."""
