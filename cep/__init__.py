"""semcep: event rules in, derived events out; read `cep.engine` first."""
