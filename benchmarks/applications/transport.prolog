% Buses: when they come and go, how they are driven, how warm, loud and full they are, and what that is for people.
initiatedAt(punctuality(V)=late, T) :- happensAt(stop_enter(V, _, late), T).
initiatedAt(punctuality(V)=punctual, T) :- happensAt(stop_enter(V, _, P), T), P \= late.
initiatedAt(punctuality(V)=late, T) :- happensAt(stop_leave(V, _, early), T).
initiatedAt(temperature(V)=W, T) :- happensAt(temperature_change(V, W), T).
initiatedAt(noise(V)=L, T) :- happensAt(noise_change(V, L), T).
initiatedAt(density(V)=D, T) :- happensAt(density_change(V, D), T).
initiatedAt(turning(V)=K, T) :- happensAt(turn_start(V, K), T).
terminatedAt(turning(V)=_, T) :- happensAt(turn_end(V), T).
initiatedAt(braking(V)=K, T) :- happensAt(brake_start(V, K), T).
terminatedAt(braking(V)=_, T) :- happensAt(brake_end(V), T).
holdsFor(driving(V)=unsafe, I) :-
    holdsFor(turning(V)=very_sharp, I1), holdsFor(braking(V)=very_abrupt, I2), union_all([I1, I2], I).
holdsFor(driving(V)=uncomfortable, I) :-
    holdsFor(turning(V)=sharp, I1), holdsFor(braking(V)=very_abrupt, I2), relative_complement_all(I1, [I2], I3),
    holdsFor(braking(V)=abrupt, I4), union_all([I3, I4], I).
holdsFor(bad_driving(V)=true, I) :-
    holdsFor(driving(V)=unsafe, I1), holdsFor(driving(V)=uncomfortable, I2), holdsFor(punctuality(V)=late, I3),
    union_all([I1, I2], I4), intersect_all([I3, I4], I).
holdsFor(hot(V)=true, I) :-
    holdsFor(temperature(V)=warm, I1), holdsFor(temperature(V)=very_warm, I2), union_all([I1, I2], I).
holdsFor(discomfort(V)=true, I) :-
    holdsFor(driving(V)=uncomfortable, I1), holdsFor(hot(V)=true, I2), holdsFor(noise(V)=high, I3),
    holdsFor(density(V)=high, I4), intersect_all([I2, I4], I5), union_all([I1, I3, I5], I).
holdsFor(unhappy(V)=true, I) :-
    holdsFor(discomfort(V)=true, I1), holdsFor(punctuality(V)=late, I2), intersect_all([I1, I2], I).
