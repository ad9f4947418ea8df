"""What airplanes about Paris are doing, and for how long: fluents over real positions."""
