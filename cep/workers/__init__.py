"""Run a program in several processes of one machine. Each process has some of the key groups (see
`cep.runtime.state_by_key`)."""
