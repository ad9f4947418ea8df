"""What is no mistake but can hardly be meant: warnings, a kind of them a module."""
