% Who meets somebody who is ill falls ill, until cured or for an hour; who is well spreads nothing. One follows from another.
initiatedAt(ill(P)=badly, T) :- happensAt(infect(P), T), \+ holdsAt(ill(P)=badly, T).
initiatedAt(ill(P)=lightly, T) :-
    happensAt(meet(Q, P), T), holdsAt(ill(Q)=badly, T), \+ holdsAt(warned(P)=true, T), \+ holdsAt(ill(P)=badly, T).
initiatedAt(ill(P)=badly, T) :- happensAt(meet(Q, P), T), holdsAt(ill(Q)=lightly, T), holdsAt(ill(P)=lightly, T).
terminatedAt(ill(P)=_, T) :- happensAt(cure(P), T).
fi(ill(P)=badly, ill(P)=lightly, 3600).
initiatedAt(warned(P)=true, T) :- happensAt(meet(P, Q), T), holdsAt(ill(Q)=badly, T), \+ holdsAt(ill(P)=lightly, T).
terminatedAt(warned(P)=true, T) :- happensAt(meet(P, Q), T), \+ holdsAt(ill(Q)=badly, T).
