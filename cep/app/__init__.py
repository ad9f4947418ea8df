"""The command `cep`: its subcommands and options, the run loop, and its output on the terminal."""
