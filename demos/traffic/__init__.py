"""Recognise what airplanes near Paris are doing, and for how long: fluents over real positions."""
