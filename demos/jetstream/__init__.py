"""Warn of turbulence ahead: real positions of airplanes over Switzerland, on the most frequent routes."""
