% Vans: how fast, how abruptly, on which roads, and when a filling station is near and the tank less than half full.
initiatedAt(high_speed(V)=true, T) :- happensAt(speed(V, S), T), threshold(V, speed, L), S > L.
terminatedAt(high_speed(V)=true, T) :- happensAt(speed(V, S), T), threshold(V, speed, L), S =< L.
initiatedAt(re_fuel_opportunity(V)=true, T) :-
    happensAt(close_to_gas(V), T), holdsAt(high_speed(V)=true, T), happensAt(fuel_level(V, L), T),
    threshold(V, fuel, Tank), L < Tank / 2.
terminatedAt(re_fuel_opportunity(V)=true, T) :-
    happensAt(fuel_level(V, L), T), threshold(V, fuel, Tank), L >= Tank / 2.
initiatedAt(icy(V)=true, T) :- happensAt(ice_on_road(V), T).
terminatedAt(icy(V)=true, T) :- happensAt(no_ice_on_road(V), T).
initiatedAt(dangerous(V)=true, T) :- happensAt(abrupt(V, _), T), holdsAt(high_speed(V)=true, T).
initiatedAt(dangerous(V)=true, T) :- happensAt(abrupt(V, _), T), holdsAt(icy(V)=true, T).
fi(dangerous(V)=true, dangerous(V)=false, 300).
p(dangerous(_)=true).
