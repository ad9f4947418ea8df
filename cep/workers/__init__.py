"""A program in several processes of one machine: each has a part of the key groups (`cep.runtime.state_by_key`)."""
