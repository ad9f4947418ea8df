"""How hot it feels: the heat index of temperature and humidity, its classes, and the areas they hold for."""
