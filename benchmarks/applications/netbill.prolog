% Merchants present quotes, consumers accept them: a contract, under which goods are sent and paid in time.
initiatedAt(quote(M, C, G)=true, T) :- happensAt(present_quote(M, C, G, _), T).
initiatedAt(quote(M, C, G)=false, T) :- happensAt(accept_quote(C, M, G), T).
fi(quote(M, C, G)=true, quote(M, C, G)=false, 15).
initiatedAt(contract(M, C, G)=true, T) :-
    happensAt(accept_quote(C, M, G), T), holdsAt(quote(M, C, G)=true, T),
    \+ holdsAt(suspended(M)=true, T), \+ holdsAt(suspended(C)=true, T).
fi(contract(M, C, G)=true, contract(M, C, G)=false, 30).
initiatedAt(sent(M, C, G)=true, T) :- happensAt(send_goods(M, C, G), T), holdsAt(contract(M, C, G)=true, T).
initiatedAt(paid(M, C, G)=true, T) :- happensAt(send_payment(C, M, G), T), holdsAt(contract(M, C, G)=true, T).
terminatedAt(sent(M, C, G)=true, T) :- happensAt(end(contract(M, C, G)=true), T).
terminatedAt(paid(M, C, G)=true, T) :- happensAt(end(contract(M, C, G)=true), T).
initiatedAt(blamed(M)=true, T) :- happensAt(end(contract(M, C, G)=true), T), \+ holdsAt(sent(M, C, G)=true, T).
initiatedAt(suspended(M)=true, T) :- happensAt(present_quote(M, _, G, P), T), price(G, Least), P < Least.
fi(suspended(M)=true, suspended(M)=false, 60).
p(suspended(_)=true).
holdsFor(owed(M, C, G)=true, I) :-
    holdsFor(sent(M, C, G)=true, I1), holdsFor(paid(M, C, G)=true, I2), relative_complement_all(I1, [I2], I).
