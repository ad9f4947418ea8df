% Vessels: critical points of their ways, and the areas they are in; gaps, stops, drifting, trawling, tugging, meeting.
initiatedAt(within_area(V, A)=true, T) :- happensAt(enters_area(V, I), T), area_type(I, A).
terminatedAt(within_area(V, A)=true, T) :- happensAt(leaves_area(V, I), T), area_type(I, A).
terminatedAt(within_area(V, _)=true, T) :- happensAt(gap_start(V), T).
initiatedAt(gap(V)=near_ports, T) :- happensAt(gap_start(V), T), holdsAt(within_area(V, near_ports)=true, T).
initiatedAt(gap(V)=far_from_ports, T) :- happensAt(gap_start(V), T), \+ holdsAt(within_area(V, near_ports)=true, T).
terminatedAt(gap(V)=_, T) :- happensAt(gap_end(V), T).
initiatedAt(stopped(V)=near_ports, T) :- happensAt(stop_start(V), T), holdsAt(within_area(V, near_ports)=true, T).
initiatedAt(stopped(V)=far_from_ports, T) :-
    happensAt(stop_start(V), T), \+ holdsAt(within_area(V, near_ports)=true, T).
terminatedAt(stopped(V)=_, T) :- happensAt(stop_end(V), T).
terminatedAt(stopped(V)=_, T) :- happensAt(gap_start(V), T).
initiatedAt(low_speed(V)=true, T) :- happensAt(slow_motion_start(V), T).
terminatedAt(low_speed(V)=true, T) :- happensAt(slow_motion_end(V), T).
terminatedAt(low_speed(V)=true, T) :- happensAt(gap_start(V), T).
initiatedAt(changing_speed(V)=true, T) :- happensAt(change_in_speed_start(V), T).
terminatedAt(changing_speed(V)=true, T) :- happensAt(change_in_speed_end(V), T).
terminatedAt(changing_speed(V)=true, T) :- happensAt(gap_start(V), T).
initiatedAt(high_near_coast(V)=true, T) :-
    happensAt(velocity(V, S, _, _), T), limit(coast, L), S > L, holdsAt(within_area(V, near_coast)=true, T).
terminatedAt(high_near_coast(V)=true, T) :- happensAt(velocity(V, S, _, _), T), limit(coast, L), S =< L.
terminatedAt(high_near_coast(V)=true, T) :- happensAt(leaves_area(V, I), T), area_type(I, near_coast).
initiatedAt(moving_speed(V)=below, T) :-
    happensAt(velocity(V, S, _, _), T), limit(moving, L), S > L, vessel_type(V, Y), speeds(Y, Low, _), S < Low.
initiatedAt(moving_speed(V)=normal, T) :-
    happensAt(velocity(V, S, _, _), T), vessel_type(V, Y), speeds(Y, Low, High), S >= Low, S =< High.
initiatedAt(moving_speed(V)=above, T) :-
    happensAt(velocity(V, S, _, _), T), vessel_type(V, Y), speeds(Y, _, High), S > High.
terminatedAt(moving_speed(V)=_, T) :- happensAt(velocity(V, S, _, _), T), limit(moving, L), S =< L.
terminatedAt(moving_speed(V)=_, T) :- happensAt(gap_start(V), T).
initiatedAt(off_course(V)=true, T) :-
    happensAt(velocity(V, _, C, H), T), D is abs(C - H), limit(drift, L), D > L.
terminatedAt(off_course(V)=true, T) :-
    happensAt(velocity(V, _, C, H), T), D is abs(C - H), limit(drift, L), D =< L.
terminatedAt(off_course(V)=true, T) :- happensAt(gap_start(V), T).
initiatedAt(trawl_speed(V)=true, T) :-
    happensAt(velocity(V, S, _, _), T), limit(trawl_low, L), S >= L, limit(trawl_high, H), S =< H,
    vessel_type(V, fishing), holdsAt(within_area(V, fishing)=true, T).
terminatedAt(trawl_speed(V)=true, T) :- happensAt(velocity(V, S, _, _), T), limit(trawl_low, L), S < L.
terminatedAt(trawl_speed(V)=true, T) :- happensAt(velocity(V, S, _, _), T), limit(trawl_high, H), S > H.
terminatedAt(trawl_speed(V)=true, T) :- happensAt(gap_start(V), T).
initiatedAt(turning(V)=true, T) :- happensAt(change_in_heading(V), T), holdsAt(within_area(V, fishing)=true, T).
fi(turning(V)=true, turning(V)=false, 600).
p(turning(_)=true).
initiatedAt(tug_speed(V)=true, T) :- happensAt(velocity(V, S, _, _), T), limit(tug_low, L), S >= L, limit(tug_high, H), S =< H.
terminatedAt(tug_speed(V)=true, T) :- happensAt(velocity(V, S, _, _), T), limit(tug_low, L), S < L.
terminatedAt(tug_speed(V)=true, T) :- happensAt(velocity(V, S, _, _), T), limit(tug_high, H), S > H.
terminatedAt(tug_speed(V)=true, T) :- happensAt(gap_start(V), T).
initiatedAt(proximity(V, W)=true, T) :- happensAt(close_start(V, W), T).
terminatedAt(proximity(V, W)=true, T) :- happensAt(close_end(V, W), T).
holdsFor(under_way(V)=true, I) :-
    holdsFor(moving_speed(V)=below, I1), holdsFor(moving_speed(V)=normal, I2), holdsFor(moving_speed(V)=above, I3),
    union_all([I1, I2, I3], I).
holdsFor(drifting(V)=true, I) :-
    holdsFor(off_course(V)=true, I1), holdsFor(under_way(V)=true, I2), intersect_all([I1, I2], I).
holdsFor(anchored_or_moored(V)=true, I) :-
    holdsFor(stopped(V)=far_from_ports, I1), holdsFor(within_area(V, anchorage)=true, I2), intersect_all([I1, I2], I3),
    holdsFor(stopped(V)=near_ports, I4), union_all([I3, I4], I).
holdsFor(trawling(V)=true, I) :-
    holdsFor(trawl_speed(V)=true, I1), holdsFor(turning(V)=true, I2), intersect_all([I1, I2], I).
holdsFor(loitering(V)=true, I) :-
    holdsFor(low_speed(V)=true, I1), holdsFor(stopped(V)=far_from_ports, I2), union_all([I1, I2], I3),
    holdsFor(within_area(V, near_coast)=true, I4), holdsFor(anchored_or_moored(V)=true, I5),
    relative_complement_all(I3, [I4, I5], I6), intDurGreater(I6, 300, I).
holdsFor(tugging(V, W)=true, I) :-
    holdsFor(proximity(V, W)=true, I1), tug(V), holdsFor(tug_speed(V)=true, I2), holdsFor(tug_speed(W)=true, I3),
    intersect_all([I1, I2, I3], I).
holdsFor(rendez_vous(V, W)=true, I) :-
    holdsFor(proximity(V, W)=true, I1), holdsFor(low_speed(V)=true, I2), holdsFor(stopped(V)=far_from_ports, I3),
    holdsFor(low_speed(W)=true, I4), holdsFor(stopped(W)=far_from_ports, I5),
    union_all([I2, I3], I6), union_all([I4, I5], I7), holdsFor(within_area(V, near_coast)=true, I8),
    intersect_all([I1, I6, I7], I9), relative_complement_all(I9, [I8], I).
tug(V) :- vessel_type(V, tug).
limit(coast, 5.0).  limit(moving, 0.5).  limit(drift, 30.0).  limit(trawl_low, 1.0).  limit(trawl_high, 9.0).
limit(tug_low, 1.2).  limit(tug_high, 15.0).
speeds(cargo, 8.0, 16.0).  speeds(fishing, 4.0, 10.0).  speeds(tug, 3.0, 12.0).
