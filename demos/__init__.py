"""Demo programs on real data. `cep demo NAME` runs each of them."""
