//! Compilation of a graph into steps.
//!
//! # Contract
//! The steps compute the values of the graph, each operation once and rounded by itself. A sum and
//! a product may become one step, which still rounds twice. The operands of `+` and `*` may be
//! exchanged, which matters only for the choice between two NaNs.
//!
//! # Method
//! A value is computed into the accumulator. If both operands of an operation must be computed, the
//! one that needs more slots is computed first and kept in a slot. A value that is used more than
//! once is also kept in a slot, until its last use.

use std::collections::HashMap;

use super::NEIGHBOURS as NAMED;
use super::graph::{Binary, Comparison, Graph, Id, Node, Read, Type, Unary};
use super::steps::{Any, Code, NEIGHBOURS, One, Place, SLOTS, Step, Two};

/// Returns the slot of a neighbour that touches the point, or of the point itself.
fn slot_of([plane, row, col]: [i8; 3]) -> Option<u8> {
    let offset = (i64::from(plane), i64::from(col));
    let touches = |(_, r, c): &(&str, i64, i64)| row == 0 && offset == (*r, *c);
    match (plane, row, col) {
        (0, 0, 0) => Some(0),
        _ => NAMED.iter().position(touches).map(|slot| slot as u8 + 1),
    }
}

/// Returns whether steps can compute `root`: one field of two dimensions, read in the order of the
/// updates at neighbours that touch the point; coefficients at the point only; no types.
pub(super) fn fits(graph: &Graph, root: Id) -> bool {
    graph.needed(&[root]).into_iter().all(|id| match graph.node(id) {
        Node::Read(Read { old: true, .. })
        | Node::Cast(..)
        | Node::Call(..)
        | Node::Constant(_, Type::Of(_)) => false,
        Node::Read(Read { array: 0, offset, .. }) => {
            slot_of(offset).is_some() && graph.value_of(id) == Type::Real
        }
        Node::Read(Read { offset, .. }) => offset == [0; 3] && graph.value_of(id) == Type::Real,
        _ => true,
    })
}

/// Returns the steps that compute `root`, which [`fits`]; `None` if there are too many constants,
/// or values that are needed again later.
pub(super) fn compile(graph: &Graph, root: Id, coefficients: usize) -> Option<Code> {
    let mut compiler = Compiler {
        graph,
        uses: vec![0; graph.len()],
        slots: vec![None; graph.len()],
        free: (NEIGHBOURS as u8..SLOTS as u8).rev().collect(),
        constants: Vec::new(),
        numbers: HashMap::new(),
        steps: Vec::new(),
    };
    compiler.count(root)?;
    compiler.compute(root)?;
    Some(Code::new(compiler.steps, compiler.constants, coefficients))
}

struct Compiler<'g> {
    graph: &'g Graph,
    /// The number of operations that still need each node.
    uses: Vec<u32>,
    /// The slot in which each node is kept, if any.
    slots: Vec<Option<u8>>,
    free: Vec<u8>,
    constants: Vec<f64>,
    /// The index of each constant, by its bits.
    numbers: HashMap<u64, u8>,
    steps: Vec<Step>,
}

impl Compiler<'_> {
    /// Counts the uses of all nodes that `root` needs, and numbers the constants.
    fn count(&mut self, root: Id) -> Option<()> {
        self.uses[root.index()] = 1;
        let mut pending = vec![root];
        while let Some(id) = pending.pop() {
            let node = self.graph.node(id);
            if let Node::Constant(bits, _) = node
                && !self.numbers.contains_key(&bits)
            {
                let index = u8::try_from(self.constants.len()).ok()?;
                self.numbers.insert(bits, index);
                self.constants.push(f64::from_bits(bits));
            }
            for operand in node.operands() {
                if self.uses[operand.index()] == 0 {
                    pending.push(operand);
                }
                self.uses[operand.index()] += 1;
            }
        }
        Some(())
    }

    /// Returns the place of a value that needs no computation (any more), if it is one.
    fn place(&self, id: Id) -> Any {
        match self.graph.node(id) {
            Node::Read(Read { array: 0, offset, .. }) => slot_of(offset).map(Place::Slot),
            Node::Read(Read { array, .. }) => Some(Place::Coefficient((array - 1) as u8)),
            Node::Constant(bits, _) => self.numbers.get(&bits).map(|&k| Place::Constant(k)),
            _ => self.slots[id.index()].map(Place::Slot),
        }
    }

    /// Keeps the accumulator, which holds `id`, in a slot until its last use.
    fn keep(&mut self, id: Id) -> Option<Place> {
        if let Some(place) = self.place(id) {
            return Some(place);
        }
        let slot = self.free.pop()?;
        self.slots[id.index()] = Some(slot);
        self.steps.push(Step::Store(slot));
        Some(Place::Slot(slot))
    }

    /// Emits a step that uses these nodes.
    fn step(&mut self, step: Step, nodes: &[Id]) {
        let joined = self.steps.last().and_then(|last| last.join(step));
        if joined.is_some() {
            self.steps.pop();
        }
        self.steps.push(joined.unwrap_or(step));
        for id in nodes {
            let uses = &mut self.uses[id.index()];
            *uses -= 1;
            if *uses == 0
                && let Some(slot) = self.slots[id.index()].take()
            {
                self.free.push(slot);
            }
        }
    }

    /// Emits the computation of a node into the accumulator.
    fn compute(&mut self, id: Id) -> Option<()> {
        if let Some(place) = self.place(id) {
            self.steps.push(One::Load.step(place));
            return Some(());
        }
        match self.graph.node(id) {
            Node::Unary(op, x) => {
                self.compute(x)?;
                let step = match op {
                    Unary::Neg => Step::Neg,
                    Unary::Abs => Step::Abs,
                    Unary::Sqrt => Step::Sqrt,
                    Unary::Floor => Step::Floor,
                    Unary::Exp | Unary::Log | Unary::Sin | Unary::Cos => Step::Call(op),
                };
                self.step(step, &[x]);
            }
            Node::Binary(op, left, right) => {
                if !self.combined(op, left, right)? {
                    self.binary(op, left, right)?;
                }
            }
            Node::Select(comparison, operands) => self.select(comparison, operands)?,
            Node::Read(_) | Node::Constant(..) | Node::Cast(..) | Node::Call(..) => {}
        }
        if self.uses[id.index()] > 1 {
            self.keep(id)?;
        }
        Some(())
    }

    /// Tries to compute an operation with a step for several operations, or with a step for two
    /// operands that need no computation. Returns whether it did.
    fn combined(&mut self, op: Binary, left: Id, right: Id) -> Option<bool> {
        let (ready, commutes) = match op {
            Binary::Add => (Two::Sum, true),
            Binary::Sub => (Two::Difference, false),
            Binary::Mul => (Two::Product, true),
            _ => return Some(false),
        };
        if let Some(step) = self.both(ready, commutes, left, right) {
            self.step(step, &[left, right]);
            return Some(true);
        }
        // First the product on the right, then the one on the left.
        let (products, scaled) = match op {
            Binary::Add => {
                ([(Two::AddProduct, left, right), (Two::AddProduct, right, left)], Two::Scaled)
            }
            Binary::Sub => (
                [(Two::LessProduct, left, right), (Two::ProductLess, right, left)],
                Two::ScaledLess,
            ),
            _ => return Some(false),
        };
        for (two, other, product) in products {
            if let Some((x, y)) = self.product(product)
                && let Some(step) = self.both(two, true, x, y)
            {
                self.compute(other)?;
                self.step(step, &[other, product, x, y]);
                return Some(true);
            }
        }
        let sides = [(left, right), (right, left)];
        for (other, product) in sides.into_iter().take(if commutes { 2 } else { 1 }) {
            if let Some((x, y)) = self.product(product) {
                for (scale, computed) in [(x, y), (y, x)] {
                    if let Some(step) = self.both(scaled, false, other, scale) {
                        self.compute(computed)?;
                        self.step(step, &[other, product, x, y]);
                        return Some(true);
                    }
                }
            }
        }
        Some(false)
    }

    /// Returns the step with both nodes as operands, if neither needs computation and there is such
    /// a step.
    fn both(&self, two: Two, commutes: bool, left: Id, right: Id) -> Option<Step> {
        let (x, y) = (self.place(left)?, self.place(right)?);
        two.step(x, y).or_else(|| if commutes { two.step(y, x) } else { None })
    }

    /// Returns the factors of a product that is used only here.
    fn product(&self, id: Id) -> Option<(Id, Id)> {
        match self.graph.node(id) {
            Node::Binary(Binary::Mul, x, y)
                if self.uses[id.index()] == 1 && self.place(id).is_none() =>
            {
                Some((x, y))
            }
            _ => None,
        }
    }

    /// Computes an operation by itself.
    fn binary(&mut self, op: Binary, left: Id, right: Id) -> Option<()> {
        let (forward, reverse) = match op {
            Binary::Add => (One::Add, One::Add),
            Binary::Sub => (One::Sub, One::SubFrom),
            Binary::Mul => (One::Mul, One::Mul),
            Binary::Div => (One::Div, One::DivInto),
            Binary::Rem => {
                let places = self.gather([left, right])?;
                self.step(Step::Rem(places), &[left, right]);
                return Some(());
            }
            Binary::Min => (One::Min, One::MinOf),
            Binary::Max => (One::Max, One::MaxOf),
        };
        // A value that needs no computation comes last, because it needs no slot.
        let (first, second) = if self.place(left).is_some()
            || self.graph.need(right) > self.graph.need(left) && self.place(right).is_none()
        {
            (right, left)
        } else {
            (left, right)
        };
        self.compute(first)?;
        // The computation of the first may have put the second into a slot.
        let (accumulated, place) = match self.place(second) {
            Some(place) => (first, place),
            None => {
                let place = self.keep(first)?;
                self.compute(second)?;
                (second, place)
            }
        };
        let step = if accumulated == left { forward } else { reverse };
        self.step(step.step(place), &[left, right]);
        Some(())
    }

    fn select(&mut self, comparison: Comparison, operands: [Id; 4]) -> Option<()> {
        let places = self.gather(operands)?;
        let step = match comparison {
            Comparison::Less => Step::Less(places),
            Comparison::AtMost => Step::AtMost(places),
            Comparison::Equal => Step::Equal(places),
        };
        self.step(step, &operands);
        Some(())
    }

    /// Computes all operands of an operation; returns their places.
    fn gather<const N: usize>(&mut self, operands: [Id; N]) -> Option<[Any; N]> {
        let mut order = operands;
        order.sort_by_key(|id| std::cmp::Reverse(self.graph.need(*id)));
        let mut accumulated: Option<Id> = None;
        for id in order {
            if self.place(id).is_some() || accumulated == Some(id) {
                continue;
            }
            if let Some(before) = accumulated {
                self.keep(before)?;
            }
            self.compute(id)?;
            accumulated = Some(id);
        }
        Some(operands.map(|id| self.place(id)))
    }
}
