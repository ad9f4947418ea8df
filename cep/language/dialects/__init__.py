"""From a syntax tree to the rules of the plan's algebra, one dialect a module; dialects never know each other."""
