"""The rules of RDFS as tables: one rule per line, with the names of RDF 1.1 Semantics.

Source: https://www.w3.org/TR/rdf11-mt/#patterns-of-rdfs-entailment-informative, and the pattern of RDF entailment in
the same document. rdfD1, rdfs1, rdfs4a, rdfs4b and rdfs8 are left out, because it is not useful to infer that every
literal, term and class is a resource.
"""

DATA = """
rdfD2   ?x ?p ?y -> ?p a rdf:Property
rdfs2   ?p rdfs:domain ?c . ?x ?p ?y -> ?x a ?c
rdfs3   ?p rdfs:range ?c . ?x ?p ?y -> ?y a ?c
rdfs7   ?p1 rdfs:subPropertyOf ?p2 . ?p1 != ?p2 . ?x ?p1 ?y -> ?x ?p2 ?y
rdfs9   ?c1 rdfs:subClassOf ?c2 . ?c1 != ?c2 . ?x a ?c1 -> ?x a ?c2
"""

SCHEMA = """
rdfs5   ?p1 rdfs:subPropertyOf ?p2 . ?p2 rdfs:subPropertyOf ?p3 -> ?p1 rdfs:subPropertyOf ?p3
rdfs6   ?p a rdf:Property -> ?p rdfs:subPropertyOf ?p
rdfs10  ?c a rdfs:Class -> ?c rdfs:subClassOf ?c
rdfs11  ?c1 rdfs:subClassOf ?c2 . ?c2 rdfs:subClassOf ?c3 -> ?c1 rdfs:subClassOf ?c3
rdfs12  ?p a rdfs:ContainerMembershipProperty -> ?p rdfs:subPropertyOf rdfs:member
rdfs13  ?d a rdfs:Datatype -> ?d rdfs:subClassOf rdfs:Literal
"""
