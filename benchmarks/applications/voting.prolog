% A motion is proposed, seconded, voted on, and declared carried or not; who chairs has to see to it.
initiatedAt(status(M)=proposed, T) :- happensAt(propose(_, M), T), \+ holdsAt(status(M)=voting, T).
initiatedAt(status(M)=voting, T) :- happensAt(second(_, M), T), holdsAt(status(M)=proposed, T).
initiatedAt(status(M)=voted, T) :- happensAt(close_ballot(C, M), T), chair(C), holdsAt(status(M)=voting, T).
initiatedAt(status(M)=settled, T) :- happensAt(declare(C, M, _), T), chair(C), holdsAt(status(M)=voted, T).
fi(status(M)=proposed, status(M)=lapsed, 20).
initiatedAt(vote_of(A, M)=V, T) :- happensAt(vote(A, M, V), T), holdsAt(status(M)=voting, T).
initiatedAt(may_close(M)=true, T) :- happensAt(vote(_, M, _), T), holdsAt(status(M)=voting, T).
terminatedAt(may_close(M)=true, T) :- happensAt(end(status(M)=voting), T).
initiatedAt(has_to_declare(M)=true, T) :- happensAt(end(status(M)=voting), T).
terminatedAt(has_to_declare(M)=true, T) :- happensAt(declare(C, M, _), T), chair(C).
initiatedAt(blamed(C)=true, T) :- happensAt(close_ballot(C, M), T), \+ holdsAt(may_close(M)=true, T).
initiatedAt(blamed(C)=true, T) :- happensAt(declare(C, M, _), T), \+ holdsAt(status(M)=voted, T).
fi(blamed(C)=true, blamed(C)=false, 30).
p(blamed(_)=true).
