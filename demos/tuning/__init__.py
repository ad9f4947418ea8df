"""The tuning demo: limits of a storm warning, chosen by the flights that were cancelled."""
