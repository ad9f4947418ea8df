"""Derive how hot it feels: the heat index from temperature and humidity, its classes, and the areas of each class."""
