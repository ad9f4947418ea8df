"""Turbulence ahead: real positions of airplanes over Switzerland, on the routes that are flown most."""
