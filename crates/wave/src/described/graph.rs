//! The values of an update and their dependencies: a directed acyclic graph.
//!
//! # Contract
//! Equal operations on equal operands are one node, so an expression that is written twice is
//! computed once. Constants are not folded, because a folded constant would not be rounded to the
//! element type at each step; the one exception is the negation of a number, which is exact.
//!
//! # Limits
//! The graph has at most [`NODES`] nodes and at most [`DEPTH`] dependent operations in a chain, so
//! that recursion over it is safe.

use std::collections::HashMap;

/// The greatest number of nodes of a graph.
pub(super) const NODES: usize = 4096;
/// The greatest number of operations each of which needs the previous one.
pub(super) const DEPTH: u16 = 200;

/// The index of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id(u16);

impl Id {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operation on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unary {
    Neg,
    Abs,
    Sqrt,
}

/// An operation on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// A comparison. The other comparisons are these with operands exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Comparison {
    Less,
    AtMost,
    Equal,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The point itself or a neighbour, by its slot, see [`steps`](super::steps).
    Neighbour(u8),
    /// A coefficient, by its index.
    Coefficient(u8),
    /// A constant, by its bits.
    Constant(u64),
    /// An operation on one value.
    Unary(Unary, Id),
    /// An operation on two values.
    Binary(Binary, Id, Id),
    /// The third value if the comparison of the first two holds, and the fourth otherwise.
    Select(Comparison, [Id; 4]),
}

impl Node {
    /// Returns the operands from which the value is computed.
    pub(super) fn operands(&self) -> impl Iterator<Item = Id> {
        let (operands, count) = match *self {
            Node::Neighbour(_) | Node::Coefficient(_) | Node::Constant(_) => ([Id(0); 4], 0),
            Node::Unary(_, x) => ([x; 4], 1),
            Node::Binary(_, x, y) => ([x, y, x, x], 2),
            Node::Select(_, operands) => (operands, 4),
        };
        operands.into_iter().take(count)
    }
}

/// The reason why a node cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Full {
    #[error("the update is too long: it may have at most {NODES} different operations")]
    Nodes,
    #[error("this is too deep: at most {DEPTH} operations may each need the previous one")]
    Depth,
}

/// The nodes, each after its operands.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    ids: HashMap<Node, Id>,
    /// For each node the depth of its chain of operations, and the number of slots that it needs.
    costs: Vec<(u16, u16)>,
}

impl Graph {
    /// Returns the existing node for this operation, or adds one.
    pub(super) fn add(&mut self, node: Node) -> Result<Id, Full> {
        if let Node::Unary(Unary::Neg, x) = node
            && let Node::Constant(bits) = self.node(x)
        {
            return self.add(Node::Constant((-f64::from_bits(bits)).to_bits()));
        }
        if let Some(&id) = self.ids.get(&node) {
            return Ok(id);
        }
        let depth = node.operands().map(|id| self.costs[id.index()].0 + 1).max().unwrap_or(0);
        if depth > DEPTH {
            return Err(Full::Depth);
        }
        if self.nodes.len() >= NODES {
            return Err(Full::Nodes);
        }
        let id = Id(self.nodes.len() as u16);
        self.costs.push((depth, self.slots(&node)));
        self.nodes.push(node);
        self.ids.insert(node, id);
        Ok(id)
    }

    /// Returns the node of a constant, or adds one.
    pub(super) fn constant(&mut self, value: f64) -> Result<Id, Full> {
        self.add(Node::Constant(value.to_bits()))
    }

    pub(super) fn node(&self, id: Id) -> Node {
        self.nodes[id.index()]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of values that must be kept at once to compute this one, if no values are
    /// shared (R. Sethi and J. Ullman, "The generation of optimal code for arithmetic expressions",
    /// JACM 1970).
    pub(super) fn need(&self, id: Id) -> u16 {
        self.costs[id.index()].1
    }

    fn slots(&self, node: &Node) -> u16 {
        let mut needs: Vec<u16> = node.operands().map(|id| self.need(id)).collect();
        if needs.is_empty() {
            return 0;
        }
        // The neediest operand comes first; each finished operand keeps one slot while the others
        // are computed.
        needs.sort_unstable_by(|a, b| b.cmp(a));
        let busy =
            needs.iter().zip(0..).map(|(need, done)| if *need == 0 { 0 } else { need + done });
        busy.max().unwrap_or(0).max(1)
    }
}
