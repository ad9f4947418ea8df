"""The rules of OWL 2 RL/RDF as tables: one rule per line, with the names and the order of the W3C.

Source: https://www.w3.org/TR/owl2-profiles/#Reasoning_in_OWL_2_RL_and_RDF_Graphs_using_Rules, tables 4 to 9.

- `?l has ?m`: the list `?l` has the member `?m`. `?l holds ?m` means the same, but is only tested once both
  are bound.
- `?l twice ?m`: the list `?l` has the member `?m` at two positions.
- `?y a every ?l`: `?y` belongs to every class in the list `?l`.
- `?y value ?v`: the literal `?v` represents the value of `?y`.
- `1`: any literal of an integer type that has this value.
- `?x != ?y`: the two terms are different. This avoids results that another rule also derives. It also selects
  two different members of a list, or two different literals of the same value.

The tables lack some rules. eq-ref, dt-type1 and prp-ap are left out (see docs/decisions/2026-11-21-reasoning.md).
prp-spo2 and prp-key become one rule for each list (lists.py). The other dt- rules are in literals.py and
equal_literals.py. Special algorithms evaluate cls-int1 and the rules in WALKED (saturation.py).
"""

EQUALITY = """
eq-sym      ?x owl:sameAs ?y -> ?y owl:sameAs ?x
eq-trans    ?x owl:sameAs ?y . ?y owl:sameAs ?z . ?x != ?z -> ?x owl:sameAs ?z
eq-rep-s    ?s owl:sameAs ?s2 . ?s ?p ?o . ?p != owl:sameAs -> ?s2 ?p ?o
eq-rep-p    ?p owl:sameAs ?p2 . ?s ?p ?o -> ?s ?p2 ?o
eq-rep-o    ?o owl:sameAs ?o2 . ?s ?p ?o . ?p != owl:sameAs -> ?s ?p ?o2
eq-diff1    ?x owl:sameAs ?y . ?x owl:differentFrom ?y -> false
eq-diff1    ?x owl:differentFrom ?x -> false
eq-diff2    ?x a owl:AllDifferent . ?x owl:members ?l . ?l has ?y . ?y owl:sameAs ?z . ?l holds ?z . ?y != ?z -> false
eq-diff2    ?x a owl:AllDifferent . ?x owl:members ?l . ?l twice ?y -> false
eq-diff3    ?x a owl:AllDifferent . ?x owl:distinctMembers ?l . ?l has ?y . ?y owl:sameAs ?z . ?l holds ?z
            . ?y != ?z -> false
eq-diff3    ?x a owl:AllDifferent . ?x owl:distinctMembers ?l . ?l twice ?y -> false
"""

PROPERTIES = """
prp-dom     ?p rdfs:domain ?c . ?x ?p ?y -> ?x a ?c
prp-rng     ?p rdfs:range ?c . ?x ?p ?y -> ?y a ?c
prp-fp      ?p a owl:FunctionalProperty . ?x ?p ?y1 . ?x ?p ?y2 . ?y1 != ?y2 -> ?y1 owl:sameAs ?y2
prp-ifp     ?p a owl:InverseFunctionalProperty . ?x1 ?p ?y . ?x2 ?p ?y . ?x1 != ?x2 -> ?x1 owl:sameAs ?x2
prp-irp     ?p a owl:IrreflexiveProperty . ?x ?p ?x -> false
prp-symp    ?p a owl:SymmetricProperty . ?x ?p ?y -> ?y ?p ?x
prp-asyp    ?p a owl:AsymmetricProperty . ?x ?p ?y . ?y ?p ?x -> false
prp-trp     ?p a owl:TransitiveProperty . ?x ?p ?y . ?y ?p ?z -> ?x ?p ?z
prp-spo1    ?p1 rdfs:subPropertyOf ?p2 . ?p1 != ?p2 . ?x ?p1 ?y -> ?x ?p2 ?y
prp-eqp1    ?p1 owl:equivalentProperty ?p2 . ?p1 != ?p2 . ?x ?p1 ?y -> ?x ?p2 ?y
prp-eqp2    ?p1 owl:equivalentProperty ?p2 . ?p1 != ?p2 . ?x ?p2 ?y -> ?x ?p1 ?y
prp-pdw     ?p1 owl:propertyDisjointWith ?p2 . ?x ?p1 ?y . ?x ?p2 ?y -> false
prp-adp     ?a a owl:AllDisjointProperties . ?a owl:members ?l . ?l has ?p1 . ?l has ?p2 . ?p1 != ?p2
            . ?x ?p1 ?y . ?x ?p2 ?y -> false
prp-adp     ?a a owl:AllDisjointProperties . ?a owl:members ?l . ?l twice ?p . ?x ?p ?y -> false
prp-inv1    ?p1 owl:inverseOf ?p2 . ?x ?p1 ?y -> ?y ?p2 ?x
prp-inv2    ?p1 owl:inverseOf ?p2 . ?x ?p2 ?y -> ?y ?p1 ?x
prp-npa1    ?n owl:sourceIndividual ?x . ?n owl:assertionProperty ?p . ?n owl:targetIndividual ?y . ?x ?p ?y -> false
prp-npa2    ?n owl:sourceIndividual ?x . ?n owl:assertionProperty ?p . ?n owl:targetValue ?y . ?x ?p ?y -> false
"""

CLASSES = """
cls-nothing2  ?x a owl:Nothing -> false
cls-int1    ?c owl:intersectionOf ?l . ?l has ?m . ?y a ?m . ?y a every ?l -> ?y a ?c
cls-int2    ?c owl:intersectionOf ?l . ?l has ?m . ?y a ?c -> ?y a ?m
cls-uni     ?c owl:unionOf ?l . ?l has ?m . ?y a ?m -> ?y a ?c
cls-com     ?c1 owl:complementOf ?c2 . ?x a ?c1 . ?x a ?c2 -> false
cls-svf1    ?c owl:someValuesFrom ?d . ?c owl:onProperty ?p . ?u ?p ?v . ?v a ?d -> ?u a ?c
cls-svf2    ?c owl:someValuesFrom owl:Thing . ?c owl:onProperty ?p . ?u ?p ?v -> ?u a ?c
cls-avf     ?c owl:allValuesFrom ?d . ?c owl:onProperty ?p . ?u a ?c . ?u ?p ?v -> ?v a ?d
cls-hv1     ?c owl:hasValue ?y . ?c owl:onProperty ?p . ?u a ?c -> ?u ?p ?y
cls-hv2     ?c owl:hasValue ?y . ?c owl:onProperty ?p . ?u ?p ?y -> ?u a ?c
cls-maxc1   ?c owl:maxCardinality 0 . ?c owl:onProperty ?p . ?u a ?c . ?u ?p ?y -> false
cls-maxc2   ?c owl:maxCardinality 1 . ?c owl:onProperty ?p . ?u a ?c . ?u ?p ?y1 . ?u ?p ?y2
            . ?y1 != ?y2 -> ?y1 owl:sameAs ?y2
cls-maxqc1  ?c owl:maxQualifiedCardinality 0 . ?c owl:onProperty ?p . ?c owl:onClass ?d . ?u a ?c . ?u ?p ?y
            . ?y a ?d -> false
cls-maxqc2  ?c owl:maxQualifiedCardinality 0 . ?c owl:onProperty ?p . ?c owl:onClass owl:Thing . ?u a ?c
            . ?u ?p ?y -> false
cls-maxqc3  ?c owl:maxQualifiedCardinality 1 . ?c owl:onProperty ?p . ?c owl:onClass ?d . ?u a ?c . ?u ?p ?y1
            . ?y1 a ?d . ?u ?p ?y2 . ?y2 a ?d . ?y1 != ?y2 -> ?y1 owl:sameAs ?y2
cls-maxqc4  ?c owl:maxQualifiedCardinality 1 . ?c owl:onProperty ?p . ?c owl:onClass owl:Thing . ?u a ?c
            . ?u ?p ?y1 . ?u ?p ?y2 . ?y1 != ?y2 -> ?y1 owl:sameAs ?y2
cls-oo      ?c owl:oneOf ?l . ?l has ?y -> ?y a ?c
"""

CLASS_AXIOMS = """
cax-sco     ?c1 rdfs:subClassOf ?c2 . ?c1 != ?c2 . ?x a ?c1 -> ?x a ?c2
cax-eqc1    ?c1 owl:equivalentClass ?c2 . ?c1 != ?c2 . ?x a ?c1 -> ?x a ?c2
cax-eqc2    ?c1 owl:equivalentClass ?c2 . ?c1 != ?c2 . ?x a ?c2 -> ?x a ?c1
cax-dw      ?c1 owl:disjointWith ?c2 . ?x a ?c1 . ?x a ?c2 -> false
cax-adc     ?a a owl:AllDisjointClasses . ?a owl:members ?l . ?l has ?c1 . ?x a ?c1 . ?x a ?c2 . ?l holds ?c2
            . ?c1 != ?c2 -> false
cax-adc     ?a a owl:AllDisjointClasses . ?a owl:members ?l . ?l twice ?c . ?x a ?c -> false
"""

SCHEMA = """
cls-thing     -> owl:Thing a owl:Class
cls-nothing1  -> owl:Nothing a owl:Class
scm-cls     ?c a owl:Class -> ?c rdfs:subClassOf ?c
scm-cls     ?c a owl:Class -> ?c owl:equivalentClass ?c
scm-cls     ?c a owl:Class -> ?c rdfs:subClassOf owl:Thing
scm-cls     ?c a owl:Class -> owl:Nothing rdfs:subClassOf ?c
scm-sco     ?c1 rdfs:subClassOf ?c2 . ?c2 rdfs:subClassOf ?c3 -> ?c1 rdfs:subClassOf ?c3
scm-eqc1    ?c1 owl:equivalentClass ?c2 -> ?c1 rdfs:subClassOf ?c2
scm-eqc1    ?c1 owl:equivalentClass ?c2 -> ?c2 rdfs:subClassOf ?c1
scm-eqc2    ?c1 rdfs:subClassOf ?c2 . ?c2 rdfs:subClassOf ?c1 -> ?c1 owl:equivalentClass ?c2
scm-op      ?p a owl:ObjectProperty -> ?p rdfs:subPropertyOf ?p
scm-op      ?p a owl:ObjectProperty -> ?p owl:equivalentProperty ?p
scm-dp      ?p a owl:DatatypeProperty -> ?p rdfs:subPropertyOf ?p
scm-dp      ?p a owl:DatatypeProperty -> ?p owl:equivalentProperty ?p
scm-spo     ?p1 rdfs:subPropertyOf ?p2 . ?p2 rdfs:subPropertyOf ?p3 -> ?p1 rdfs:subPropertyOf ?p3
scm-eqp1    ?p1 owl:equivalentProperty ?p2 -> ?p1 rdfs:subPropertyOf ?p2
scm-eqp1    ?p1 owl:equivalentProperty ?p2 -> ?p2 rdfs:subPropertyOf ?p1
scm-eqp2    ?p1 rdfs:subPropertyOf ?p2 . ?p2 rdfs:subPropertyOf ?p1 -> ?p1 owl:equivalentProperty ?p2
scm-dom1    ?p rdfs:domain ?c1 . ?c1 rdfs:subClassOf ?c2 -> ?p rdfs:domain ?c2
scm-dom2    ?p2 rdfs:domain ?c . ?p1 rdfs:subPropertyOf ?p2 -> ?p1 rdfs:domain ?c
scm-rng1    ?p rdfs:range ?c1 . ?c1 rdfs:subClassOf ?c2 -> ?p rdfs:range ?c2
scm-rng2    ?p2 rdfs:range ?c . ?p1 rdfs:subPropertyOf ?p2 -> ?p1 rdfs:range ?c
scm-hv      ?c1 owl:hasValue ?i . ?c1 owl:onProperty ?p1 . ?c2 owl:hasValue ?i . ?c2 owl:onProperty ?p2
            . ?p1 rdfs:subPropertyOf ?p2 -> ?c1 rdfs:subClassOf ?c2
scm-svf1    ?c1 owl:someValuesFrom ?y1 . ?c1 owl:onProperty ?p . ?c2 owl:someValuesFrom ?y2
            . ?c2 owl:onProperty ?p . ?y1 rdfs:subClassOf ?y2 -> ?c1 rdfs:subClassOf ?c2
scm-svf2    ?c1 owl:someValuesFrom ?y . ?c1 owl:onProperty ?p1 . ?c2 owl:someValuesFrom ?y
            . ?c2 owl:onProperty ?p2 . ?p1 rdfs:subPropertyOf ?p2 -> ?c1 rdfs:subClassOf ?c2
scm-avf1    ?c1 owl:allValuesFrom ?y1 . ?c1 owl:onProperty ?p . ?c2 owl:allValuesFrom ?y2
            . ?c2 owl:onProperty ?p . ?y1 rdfs:subClassOf ?y2 -> ?c1 rdfs:subClassOf ?c2
scm-avf2    ?c1 owl:allValuesFrom ?y . ?c1 owl:onProperty ?p1 . ?c2 owl:allValuesFrom ?y
            . ?c2 owl:onProperty ?p2 . ?p1 rdfs:subPropertyOf ?p2 -> ?c2 rdfs:subClassOf ?c1
scm-int     ?c owl:intersectionOf ?l . ?l has ?m -> ?c rdfs:subClassOf ?m
scm-uni     ?c owl:unionOf ?l . ?l has ?m -> ?m rdfs:subClassOf ?c
"""

WALKED = ("eq-sym", "eq-trans", "prp-trp")
"""The rules that are evaluated by a search over whole paths. It derives all pairs at the ends of paths at once, instead
of one step per round."""

VALUES = """
eq-rep-s    ?s value ?v . ?s2 value ?v . ?s != ?s2 . ?s ?p ?o -> ?s2 ?p ?o
dt-eq       ?x owl:sameAs ?y . ?y value ?v . ?z value ?v . ?y != ?z . ?w owl:sameAs ?z . ?x != ?w -> ?x owl:sameAs ?w
eq-diff1    ?x owl:sameAs ?y . ?y value ?v . ?z value ?v . ?y != ?z . ?x owl:differentFrom ?z -> false
eq-diff2    ?x a owl:AllDifferent . ?x owl:members ?l . ?l has ?y . ?y value ?v . ?z value ?v . ?l holds ?z
            . ?y != ?z -> false
eq-diff3    ?x a owl:AllDifferent . ?x owl:distinctMembers ?l . ?l has ?y . ?y value ?v . ?z value ?v . ?l holds ?z
            . ?y != ?z -> false
prp-ifp     ?p a owl:InverseFunctionalProperty . ?x1 ?p ?y . ?y value ?v . ?z value ?v . ?y != ?z . ?x2 ?p ?z
            . ?x1 != ?x2 -> ?x1 owl:sameAs ?x2
prp-pdw     ?p1 owl:propertyDisjointWith ?p2 . ?x ?p1 ?y . ?y value ?v . ?z value ?v . ?y != ?z . ?x ?p2 ?z -> false
prp-adp     ?a a owl:AllDisjointProperties . ?a owl:members ?l . ?l has ?p1 . ?l has ?p2 . ?p1 != ?p2
            . ?x ?p1 ?y . ?y value ?v . ?z value ?v . ?y != ?z . ?x ?p2 ?z -> false
prp-npa2    ?n owl:sourceIndividual ?x . ?n owl:assertionProperty ?p . ?n owl:targetValue ?y . ?y value ?v . ?z value ?v
            . ?y != ?z . ?x ?p ?z -> false
cls-hv2     ?c owl:hasValue ?y . ?c owl:onProperty ?p . ?y value ?v . ?z value ?v . ?y != ?z . ?u ?p ?z -> ?u a ?c
scm-hv      ?c1 owl:hasValue ?i . ?c1 owl:onProperty ?p1 . ?i value ?v . ?j value ?v . ?i != ?j . ?c2 owl:hasValue ?j
            . ?c2 owl:onProperty ?p2 . ?p1 rdfs:subPropertyOf ?p2 -> ?c1 rdfs:subClassOf ?c2
"""
"""RULE dt-eq: variants of those rules in this module that mention an object twice. In a variant, two different literals
match if their values are equal."""

DATA = EQUALITY + PROPERTIES + CLASSES + CLASS_AXIOMS + VALUES
