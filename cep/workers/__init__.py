"""Run a program in several processes of one machine. Each process has some of the key groups
(`cep.runtime.state_by_key`)."""
