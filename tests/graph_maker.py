"""Random small graphs with every construct of OWL 2 RL: axioms, lists, restrictions, and a few facts."""

from __future__ import annotations

from random import Random

from rdflib import BNode, Graph, Literal, Namespace
from rdflib.namespace import OWL, RDF, RDFS, XSD
from rdflib.term import Node

EX = Namespace("http://example.org/")
THINGS = [EX[f"a{n}"] for n in range(4)]
CLASSES = [EX[f"C{n}"] for n in range(4)]
PROPERTIES = [EX[f"p{n}"] for n in range(3)]
OF_VALUES = [EX.d0, EX.d1]
VALUES = [
    Literal("1", datatype=XSD.integer),
    Literal("2", datatype=XSD.integer),
    Literal("1.5", datatype=XSD.decimal),
    Literal("1.0", datatype=XSD.decimal),
    Literal("01", datatype=XSD.int),
    Literal("1", datatype=XSD.double),
    Literal("true", datatype=XSD.boolean),
    Literal("u"),
    Literal("v", datatype=XSD.string),
    Literal("u", lang="en"),
]
DATATYPES = [XSD.integer, XSD.string, XSD.decimal]
NUMBERS = [Literal(n, datatype=type) for n in ("0", "1", "1", "1") for type in (XSD.nonNegativeInteger, XSD.integer)]

GIVING = [OWL.FunctionalProperty, OWL.InverseFunctionalProperty, OWL.SymmetricProperty, OWL.TransitiveProperty]
REFUSING = [OWL.IrreflexiveProperty, OWL.AsymmetricProperty]
METACLASSES = [OWL.TransitiveProperty, OWL.FunctionalProperty, OWL.Class]


class GraphMaker:
    """Makes one graph by the choices of a random number generator."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.graph = Graph()
        self._blanks = 0

    def made(self, axioms: int = 7, facts: int = 9) -> Graph:
        """So many axioms and facts at most."""
        for _ in range(self.random.randint(1, axioms)):
            self.axiom()
        for _ in range(self.random.randint(2, facts)):
            self.fact()
        return self.graph

    def add(self, s: Node, p: Node, o: Node) -> None:
        self.graph.add((s, p, o))

    def one_of(self, *choices: list[Node]) -> Node:
        return self.random.choice([choice for part in choices for choice in part])

    def blank(self) -> BNode:
        self._blanks += 1
        return BNode(f"b{self._blanks}")

    def list_of(self, members: list[Node]) -> Node:
        head: Node = RDF.nil
        for member in reversed(members):
            node = self.blank()
            self.add(node, RDF.first, member)
            self.add(node, RDF.rest, head)
            head = node
        return head

    def some(self, choices: list[Node], least: int, most: int) -> Node:
        """A list of so many, perhaps one of them twice."""
        return self.list_of([self.one_of(choices) for _ in range(self.random.randint(least, most))])

    def different(self, choices: list[Node], count: int) -> Node:
        return self.list_of(self.random.sample(choices, count))

    def property(self) -> Node:
        return self.one_of(PROPERTIES, PROPERTIES, OF_VALUES)

    def class_(self) -> Node:
        if self.random.random() < 0.8:
            return self.one_of(CLASSES * 3, [OWL.Thing])
        node = self.blank()
        self.restrict(node)
        return node

    def restrict(self, node: Node) -> None:
        kind = self.random.randrange(8)
        if kind < 6:
            self.add(node, OWL.onProperty, self.property())
        if kind == 0:
            self.add(node, OWL.someValuesFrom, self.one_of(CLASSES, DATATYPES, [OWL.Thing]))
        elif kind == 1:
            self.add(node, OWL.allValuesFrom, self.one_of(CLASSES, DATATYPES, [OWL.Thing]))
        elif kind == 2:
            self.add(node, OWL.hasValue, self.one_of(THINGS, VALUES))
        elif kind == 3:
            self.add(node, OWL.maxCardinality, self.one_of(NUMBERS))
        elif kind < 6:
            self.add(node, OWL.maxQualifiedCardinality, self.one_of(NUMBERS))
            self.add(node, OWL.onClass, self.one_of(CLASSES, [OWL.Thing]))
        elif kind == 6:
            self.add(node, OWL.oneOf, self.different(THINGS, 2))
        else:
            self.add(node, self.one_of([OWL.unionOf, OWL.intersectionOf]), self.some(CLASSES, 0, 3))

    def axiom(self) -> None:
        kind = self.random.randrange(30)
        if kind < 3:
            self.add(self.class_(), RDFS.subClassOf, self.class_())
        elif kind == 3:
            self.add(self.class_(), OWL.equivalentClass, self.class_())
        elif kind < 8:
            verb = (RDFS.subPropertyOf, OWL.equivalentProperty, OWL.inverseOf, OWL.propertyDisjointWith)[kind - 4]
            self.add(self.property(), verb, self.property())
        elif kind == 8:
            self.add(self.property(), RDFS.domain, self.class_())
        elif kind == 9:
            self.add(self.property(), RDFS.range, self.one_of(CLASSES, DATATYPES, [OWL.Thing]))
        elif kind < 12:
            self.add(self.property(), RDF.type, self.one_of(GIVING))
        elif kind == 12:
            self.add(self.property(), RDF.type, self.one_of(REFUSING))
        elif kind == 13:
            self.add(self.property(), OWL.propertyChainAxiom, self.list_of([self.property() for _ in range(2)]))
        elif kind == 14:
            self.add(
                self.class_(), OWL.hasKey, self.list_of([self.property(), self.property()][self.random.randrange(2) :])
            )
        elif kind == 15:
            self.add(self.class_(), self.one_of([OWL.disjointWith, OWL.complementOf]), self.class_())
        elif kind == 16:
            self.disjoint(OWL.AllDisjointClasses, OWL.members, self.some(CLASSES, 3, 3))
        elif kind == 17:
            self.disjoint(OWL.AllDisjointProperties, OWL.members, self.different(PROPERTIES, 3))
        elif kind == 18:
            self.disjoint(OWL.AllDifferent, self.one_of([OWL.members, OWL.distinctMembers]), self.different(THINGS, 3))
        elif kind == 19:
            node = self.blank()
            self.add(node, OWL.sourceIndividual, self.one_of(THINGS))
            self.add(node, OWL.assertionProperty, self.property())
            self.add(node, self.one_of([OWL.targetIndividual, OWL.targetValue]), self.one_of(THINGS, VALUES))
        elif kind == 20:
            self.add(self.one_of(THINGS), OWL.sameAs, self.one_of(THINGS))
        elif kind == 21:
            self.add(self.one_of(THINGS), OWL.differentFrom, self.one_of(THINGS))
        elif kind == 22:
            self.add(self.one_of(CLASSES, PROPERTIES), OWL.sameAs, self.one_of(CLASSES, PROPERTIES))
        elif kind == 23:
            self.add(self.one_of(CLASSES), RDF.type, OWL.Class)
        elif kind == 24:
            self.add(self.property(), RDF.type, self.one_of([OWL.ObjectProperty, OWL.DatatypeProperty]))
        elif kind < 28:
            self.restrict(self.one_of(CLASSES))
        elif kind == 28:
            # What makes schema of data.
            self.add(self.one_of(PROPERTIES), RDFS.subPropertyOf, self.one_of([OWL.sameAs, RDF.type, RDFS.subClassOf]))
        else:
            self.add(self.one_of(CLASSES), RDFS.subClassOf, self.one_of(METACLASSES))

    def disjoint(self, kind: Node, of: Node, members: Node) -> None:
        node = self.blank()
        self.add(node, RDF.type, kind)
        self.add(node, of, members)

    def fact(self) -> None:
        kind = self.random.random()
        if kind < 0.4:
            self.add(self.one_of(THINGS), RDF.type, self.class_())
        elif kind < 0.8:
            self.add(self.one_of(THINGS), self.one_of(PROPERTIES), self.one_of(THINGS))
        else:
            self.add(self.one_of(THINGS), self.one_of(OF_VALUES), self.one_of(VALUES))
