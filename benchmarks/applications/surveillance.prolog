% People before a camera: what each does, how far two are apart, and what that comes to.
initiatedAt(doing(P)=A, T) :- happensAt(seen(P, A), T).
terminatedAt(doing(P)=_, T) :- happensAt(gone(P), T).
initiatedAt(near(P, Q)=true, T) :- happensAt(distance(P, Q, D), T), D < 25.
terminatedAt(near(P, Q)=true, T) :- happensAt(distance(P, Q, D), T), D >= 25.
initiatedAt(close(P, Q)=true, T) :- happensAt(distance(P, Q, D), T), D < 10.
terminatedAt(close(P, Q)=true, T) :- happensAt(distance(P, Q, D), T), D >= 10.
initiatedAt(person(P)=true, T) :- happensAt(seen(P, A), T), A \= inactive.
terminatedAt(person(P)=true, T) :- happensAt(gone(P), T).
initiatedAt(left_behind(P, Q)=true, T) :-
    happensAt(distance(P, Q, D), T), D >= 10, D < 40, holdsAt(person(P)=true, T), holdsAt(doing(Q)=inactive, T),
    \+ holdsAt(person(Q)=true, T).
terminatedAt(left_behind(P, Q)=true, T) :- happensAt(distance(P, Q, D), T), D < 10.
holdsFor(still(P)=true, I) :-
    holdsFor(doing(P)=active, I1), holdsFor(doing(P)=inactive, I2), union_all([I1, I2], I).
holdsFor(meeting(P, Q)=true, I) :-
    holdsFor(close(P, Q)=true, I1), holdsFor(still(P)=true, I2), holdsFor(person(Q)=true, I3),
    holdsFor(doing(Q)=running, I4), intersect_all([I1, I2, I3], I5), relative_complement_all(I5, [I4], I).
holdsFor(walking_together(P, Q)=true, I) :-
    holdsFor(near(P, Q)=true, I1), holdsFor(doing(P)=walking, I2), holdsFor(doing(Q)=walking, I3),
    intersect_all([I1, I2, I3], I).
holdsFor(fighting(P, Q)=true, I) :-
    holdsFor(close(P, Q)=true, I1), holdsFor(doing(P)=abrupt, I2), holdsFor(doing(Q)=abrupt, I3),
    intersect_all([I1, I2], I4), intersect_all([I1, I3], I5), union_all([I4, I5], I6),
    holdsFor(doing(Q)=inactive, I7), relative_complement_all(I6, [I7], I).
