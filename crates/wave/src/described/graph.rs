//! The values of an update and what they are computed from: a graph without circles.
//!
//! # Contract
//! Equal operations on equal operands are one node, so what is written twice is computed once.
//! Nothing is folded, because a folded constant would not be rounded as the values are; the one
//! exception is the negative of a number, which is exact.
//!
//! # Limits
//! [`NODES`] nodes, and [`DEPTH`] of them one upon the other, so that recursion over them is safe.

use std::collections::HashMap;

/// The most nodes of a graph.
pub(super) const NODES: usize = 4096;
/// The most operations of which each needs the one before.
pub(super) const DEPTH: u16 = 200;

/// A node.
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

/// A comparison; the others are these with something exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Comparison {
    Less,
    AtMost,
    Equal,
}

/// How a value comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The point itself or a neighbour: its slot, see [`steps`](super::steps).
    Neighbour(u8),
    /// A coefficient.
    Coefficient(u8),
    /// The bits of a constant.
    Constant(u64),
    /// An operation on one value.
    Unary(Unary, Id),
    /// An operation on two.
    Binary(Binary, Id, Id),
    /// The third if the comparison of the first two holds, or else the fourth.
    Select(Comparison, [Id; 4]),
}

impl Node {
    /// What the value is computed from.
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

/// Why there is no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Full {
    #[error("the update is too long: it may have at most {NODES} different operations")]
    Nodes,
    #[error("this is too deep: at most {DEPTH} operations may each need the one before")]
    Depth,
}

/// The nodes, each after its operands.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    ids: HashMap<Node, Id>,
    /// How many operations stand upon one another, and how many slots they need.
    costs: Vec<(u16, u16)>,
}

impl Graph {
    /// The node, new or not.
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

    /// A constant.
    pub(super) fn constant(&mut self, value: f64) -> Result<Id, Full> {
        self.add(Node::Constant(value.to_bits()))
    }

    pub(super) fn node(&self, id: Id) -> Node {
        self.nodes[id.index()]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many values must be kept at once to compute this one, if nothing is shared (R. Sethi and
    /// J. Ullman, "The generation of optimal code for arithmetic expressions", JACM 1970).
    pub(super) fn need(&self, id: Id) -> u16 {
        self.costs[id.index()].1
    }

    fn slots(&self, node: &Node) -> u16 {
        let mut needs: Vec<u16> = node.operands().map(|id| self.need(id)).collect();
        if needs.is_empty() {
            return 0;
        }
        // The neediest first; each that is done keeps one slot while the others are computed.
        needs.sort_unstable_by(|a, b| b.cmp(a));
        let busy =
            needs.iter().zip(0..).map(|(need, done)| if *need == 0 { 0 } else { need + done });
        busy.max().unwrap_or(0).max(1)
    }
}
