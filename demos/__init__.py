"""Programs on real data, each runnable by `cep demo NAME`."""
