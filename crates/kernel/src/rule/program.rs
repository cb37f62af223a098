//! Programs: the graph of a rule as operations on runs of values.
//!
//! # Contract
//! A [`Program`] computes the new values of all fields at `n` points whose updates do not depend on
//! one another, and whose values are adjacent in memory: the points of a row, or those along a
//! diagonal that a layout has put side by side. [`Machine::run`] takes the address of the first
//! value of each read and of each output.
//!
//! A program is machine code where there is code for the rule, see `native`, and a
//! list of operations otherwise, which this file makes and interprets.
//!
//! ```text
//! rule      u + 0.1 * (old.n + old.s + old.e + old.w - 4 * u)
//! reads     0: u   1: u north   2: u south   3: u east   4: u west
//! numbers   5: 0.1   6: 4                      buffers that hold the number in every place
//! program   7 = Sum4(1, 2, 3, 4)               7 and 8 are temporary, of one chunk
//!           8 = Pair(Mul, From)(6, 0, 7)       7 - 6 * 0
//!           out = Pair(Mul, Add)(5, 8, 0)
//! ```
//!
//! # Costs
//! A run is processed in chunks of [`CHUNK`] points, so temporary values stay in the first-level
//! cache. An operation costs a call for each chunk, and its loads and stores, see
//! `loops`. Two operations whose first result is used only once are one where
//! possible.
//!
//! # Source
//! Vectorised interpretation: P. Boncz, M. Zukowski and N. Nes, "MonetDB/X100", CIDR 2005.

use std::collections::HashMap;

use syncline_store::array::Half;
use syncline_store::direct_io::IoBuffer;
use syncline_store::{ElementType, Result};

use super::loops::{Instructions, Loop, find};
use super::native::Native;
use super::operations::{Arithmetic, Op, Then};
use super::{Function, Rule};
use crate::described::graph::{ARGUMENTS, Binary, Id, Node, Read, Type};
use crate::lanes::Lanes;

/// The number of points of a chunk.
pub const CHUNK: usize = 512;
/// The bytes of a buffer of one chunk; an odd number of lines, so that buffers differ in their sets
/// of the cache.
const BUFFER: usize = CHUNK * 8 + 64;

/// One operation, on buffers.
#[derive(Debug)]
struct Operation {
    run: Run,
    /// The index of the buffer of the result, or, from [`OUTPUT`] on, an output.
    to: u16,
}

#[derive(Debug)]
enum Run {
    Loop(Loop, [u16; 4]),
    /// A call of a function of the rule.
    Call(u16, Vec<u16>),
}

/// Indices from here on are outputs.
const OUTPUT: u16 = 1 << 15;

/// The operations of a rule for arrays of known types.
#[derive(Debug)]
pub struct Program {
    native: Option<Native>,
    /// Empty if there is machine code.
    operations: Vec<Operation>,
    reads: Vec<(Read, ElementType)>,
    numbers: Vec<(f64, ElementType)>,
    /// The number of all buffers: reads, numbers and temporary ones.
    buffers: usize,
    /// The types of the outputs.
    outputs: Vec<ElementType>,
    functions: Vec<Function>,
}

impl Program {
    /// Compiles a rule for arrays of these types. If `in_place`, the outputs may be the values that
    /// are read at the points themselves; otherwise they may be no values that are read.
    pub fn new(rule: &Rule, real: ElementType, lanes: Lanes, in_place: bool) -> Self {
        Self::compiled(rule, real, lanes, in_place, true)
    }

    /// Compiles a rule to operations, also if there is machine code for it.
    #[cfg(test)]
    pub(super) fn interpreted(
        rule: &Rule,
        real: ElementType,
        lanes: Lanes,
        in_place: bool,
    ) -> Self {
        Self::compiled(rule, real, lanes, in_place, false)
    }

    /// Returns whether the program is machine code.
    #[cfg(test)]
    pub(super) fn is_native(&self) -> bool {
        self.native.is_some()
    }

    fn compiled(
        rule: &Rule,
        real: ElementType,
        lanes: Lanes,
        in_place: bool,
        native: bool,
    ) -> Self {
        let compiler = Compiler::new(rule, real);
        if let Some(native) = native.then(|| compiler.native(lanes)).flatten() {
            return Program {
                native: Some(native),
                operations: Vec::new(),
                buffers: compiler.reads.len(),
                outputs: compiler.outputs(),
                reads: compiler.reads,
                numbers: Vec::new(),
                functions: Vec::new(),
            };
        }
        compiler.finish(lanes, in_place)
    }

    /// Returns the reads, in the order in which [`Machine::run`] takes their addresses.
    pub fn reads(&self) -> impl Iterator<Item = Read> {
        self.reads.iter().map(|(read, _)| *read)
    }
}

/// An operation before its buffers are known: operands are nodes, or the bytes of a comparison.
#[derive(Clone, Debug)]
struct Draft {
    op: Drafted,
    element: ElementType,
    to: Value,
    from: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
enum Drafted {
    Op(Op),
    Call(u16),
}

/// A value that an operation makes or takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Value {
    Node(Id),
    /// The result of the comparison of a choice.
    Mask(Id),
    Output(usize),
    /// A value that a field gets as it is read, apart from the place of the read.
    Kept(usize),
}

/// An operation and the buffers of its values; from [`OUTPUT`] on, an output.
struct Placed {
    op: Drafted,
    element: ElementType,
    to: u16,
    from: Vec<u16>,
}

/// The operations of a rule, and the buffers that they need, before code is chosen for them.
pub(super) struct Operations {
    all: Vec<Placed>,
    reads: Vec<(Read, ElementType)>,
    numbers: Vec<(f64, ElementType)>,
    buffers: usize,
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Buffer {
    Read(Read),
    /// A number, by its index.
    Number(usize),
    /// A temporary value, by its index.
    Temporary(usize),
    Output,
}

impl Operations {
    /// Returns the operations of a rule without functions.
    pub(super) fn new(rule: &Rule, real: ElementType) -> Self {
        Compiler::new(rule, real).placed(false)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = f64> {
        self.numbers.iter().map(|(value, _)| *value)
    }

    /// Returns the number of temporary values that are needed at once.
    pub(super) fn temporaries(&self) -> usize {
        self.buffers - self.reads.len() - self.numbers.len()
    }

    /// Returns the operations with their results and operands.
    pub(super) fn all(&self) -> impl Iterator<Item = (Op, Buffer, Vec<Buffer>)> {
        self.all.iter().map(|Placed { op, to, from, .. }| {
            let Drafted::Op(op) = *op else { unreachable!("strips call no functions") };
            (op, self.buffer(*to), from.iter().map(|place| self.buffer(*place)).collect())
        })
    }

    fn buffer(&self, place: u16) -> Buffer {
        let (reads, numbers) = (self.reads.len(), self.numbers.len());
        match place {
            OUTPUT.. => Buffer::Output,
            place => match (place as usize).checked_sub(reads) {
                None => Buffer::Read(self.reads[place as usize].0),
                Some(number) if number < numbers => Buffer::Number(number),
                Some(other) => Buffer::Temporary(other - numbers),
            },
        }
    }
}

struct Compiler<'r> {
    rule: &'r Rule,
    /// The type of values without a type of their own.
    real: ElementType,
    nodes: Vec<Id>,
    uses: Vec<u32>,
    /// The operations that compute several nodes at once, by the last one.
    parts: HashMap<Id, (Op, Vec<Id>)>,
    /// The buffers of reads and numbers.
    places: HashMap<Id, u16>,
    reads: Vec<(Read, ElementType)>,
    numbers: Vec<(f64, ElementType)>,
    operations: Vec<Draft>,
}

impl<'r> Compiler<'r> {
    fn new(rule: &'r Rule, real: ElementType) -> Self {
        let nodes = rule.graph.needed(&rule.roots);
        let mut uses = vec![0_u32; rule.graph.len()];
        for id in &nodes {
            rule.graph.node(*id).operands().for_each(|operand| uses[operand.index()] += 1);
        }
        rule.roots.iter().for_each(|root| uses[root.index()] += 1);
        let mut compiler = Compiler {
            rule,
            real,
            nodes,
            uses,
            parts: HashMap::new(),
            places: HashMap::new(),
            reads: Vec::new(),
            numbers: Vec::new(),
            operations: Vec::new(),
        };
        compiler.sources();
        compiler
    }

    /// Returns the type of a value.
    fn element(&self, id: Id) -> ElementType {
        match self.rule.graph.value_of(id) {
            Type::Of(element) => element,
            Type::Real | Type::Literal => self.real,
        }
    }

    /// Returns the types of the outputs.
    fn outputs(&self) -> Vec<ElementType> {
        self.rule.roots.iter().map(|id| self.element(*id)).collect()
    }

    /// Returns machine code, if all values have one type and there is code for them.
    fn native(&self, lanes: Lanes) -> Option<Native> {
        let one = self.element(*self.nodes.first()?);
        let reads: Vec<Read> = self.reads.iter().map(|(read, _)| *read).collect();
        let same = self.nodes.iter().all(|id| self.element(*id) == one);
        same.then(|| Native::new(self.rule, &reads, one, Instructions::of(lanes)))?
    }

    /// Decides which nodes are computed together with the one that uses them.
    fn fuse(&mut self) {
        let mut folded = vec![false; self.rule.graph.len()];
        let graph = &self.rule.graph;
        for &id in self.nodes.iter().rev() {
            if folded[id.index()] {
                continue;
            }
            let Node::Binary(op, x, y) = graph.node(id) else { continue };
            let single = |id: Id| self.uses[id.index()] == 1;
            let sum = |id: Id| match graph.node(id) {
                Node::Binary(Binary::Add, x, y) => Some((x, y)),
                _ => None,
            };
            let product = |id: Id| match graph.node(id) {
                Node::Binary(Binary::Mul, x, y) if single(id) && self.element(id).is_real() => {
                    Some((x, y))
                }
                _ => None,
            };
            if op == Binary::Add
                && let (Some((a, b)), Some((c, d))) = (product(x), product(y))
            {
                folded[x.index()] = true;
                folded[y.index()] = true;
                self.parts.insert(id, (Op::Products, vec![a, b, c, d]));
                continue;
            }
            // A sum of products is shorter as one of them after the other.
            let few =
                |summands: &[Id]| summands.iter().filter(|id| product(**id).is_some()).count() < 2;
            if op == Binary::Add
                && let Some((left, c)) = sum(x).filter(|_| single(x))
                && let Some((a, b)) = sum(left).filter(|_| single(left))
                && few(&[a, b, c, y])
            {
                folded[x.index()] = true;
                folded[left.index()] = true;
                self.parts.insert(id, (Op::Sum4, vec![a, b, c, y]));
                continue;
            }
            if !self.element(id).is_real() {
                continue;
            }
            let first = |id: Id| match graph.node(id) {
                Node::Binary(op, a, b) if single(id) => Some((arithmetic(op)?, a, b)),
                _ => None,
            };
            let then = |left: bool| match (op, left) {
                (Binary::Add, _) => Some(Then::Add),
                (Binary::Mul, _) => Some(Then::Times),
                (Binary::Sub, true) => Some(Then::Less),
                (Binary::Sub, false) => Some(Then::From),
                _ => None,
            };
            let sides = [(y, x, false), (x, y, true)];
            // A product comes before a sum, which may be a part of a longer sum.
            let products = sides
                .into_iter()
                .filter(|(inner, ..)| matches!(graph.node(*inner), Node::Binary(Binary::Mul, ..)));
            let choice = products.chain(sides).find_map(|(inner, other, left)| {
                let (arithmetic, a, b) = first(inner)?;
                Some((inner, Op::Pair(arithmetic, then(left)?), vec![a, b, other]))
            });
            if let Some((inner, op, operands)) = choice {
                folded[inner.index()] = true;
                self.parts.insert(id, (op, operands));
            }
        }
        let is_folded = |id: &Id| folded[id.index()];
        // A folded node has no operation of its own.
        for id in self.nodes.iter().filter(|id| is_folded(id)) {
            self.parts.insert(*id, (Op::Copy, Vec::new()));
        }
    }

    /// Numbers the reads, then the constants.
    fn sources(&mut self) {
        for &id in &self.nodes {
            if let Node::Read(read) = self.rule.graph.node(id) {
                self.places.insert(id, self.reads.len() as u16);
                self.reads.push((read, self.element(id)));
            }
        }
        for &id in &self.nodes {
            if let Node::Constant(bits, _) = self.rule.graph.node(id) {
                self.places.insert(id, (self.reads.len() + self.numbers.len()) as u16);
                self.numbers.push((f64::from_bits(bits), self.element(id)));
            }
        }
    }

    fn emit(&mut self) {
        for id in std::mem::take(&mut self.nodes) {
            let element = self.element(id);
            let to = Value::Node(id);
            let node = Value::Node;
            if let Some((op, operands)) = self.parts.remove(&id) {
                if !operands.is_empty() {
                    let from: Vec<Value> = operands.iter().map(|id| node(*id)).collect();
                    self.push(op, element, to, &from);
                }
                continue;
            }
            match self.rule.graph.node(id) {
                Node::Read(_) | Node::Constant(..) => {}
                Node::Unary(op, x) => self.push(Op::Unary(op), element, to, &[node(x)]),
                Node::Binary(op, x, y) => {
                    self.push(Op::Binary(op), element, to, &[node(x), node(y)])
                }
                Node::Cast(_, x) => {
                    let from = self.element(x);
                    self.push(Op::Cast(from), element, to, &[node(x)]);
                }
                Node::Select(comparison, [p, q, x, y]) => {
                    let compared = self.element(p);
                    if compared == element {
                        let from = [node(p), node(q), node(x), node(y)];
                        self.push(Op::Select(comparison), element, to, &from);
                    } else {
                        let mask = Value::Mask(id);
                        self.push(Op::Compare(comparison), compared, mask, &[node(p), node(q)]);
                        self.push(Op::Choose, element, to, &[mask, node(x), node(y)]);
                    }
                }
                Node::Call(function, arguments) => {
                    let from = arguments.iter().map(|id| node(*id)).collect();
                    let op = Drafted::Call(function);
                    self.operations.push(Draft { op, element, to, from });
                }
            }
        }
    }

    fn push(&mut self, op: Op, element: ElementType, to: Value, from: &[Value]) {
        let from = from.to_vec();
        self.operations.push(Draft { op: Drafted::Op(op), element, to, from });
    }

    /// Assigns buffers, and appends the copies to the outputs.
    fn placed(mut self, in_place: bool) -> Operations {
        self.fuse();
        self.emit();
        let outputs = self.outputs();
        // A read may lead to the place of an output before: its value is taken first.
        let is_kept = |field: usize, root: Id| {
            in_place && field > 0 && matches!(self.rule.graph.node(root), Node::Read(_))
        };
        let kept: Vec<bool> =
            self.rule.roots.iter().enumerate().map(|(n, root)| is_kept(n, *root)).collect();
        for (field, &root) in self.rule.roots.iter().enumerate().filter(|(n, _)| kept[*n]) {
            let (from, to) = (vec![Value::Node(root)], Value::Kept(field));
            self.operations.push(Draft {
                op: Drafted::Op(Op::Copy),
                element: outputs[field],
                to,
                from,
            });
        }
        for (field, &root) in self.rule.roots.iter().enumerate() {
            let made_last = matches!(
                self.operations.last(),
                Some(Draft { op: Drafted::Op(_), to, .. }) if *to == Value::Node(root)
            );
            // The last operation can write to the output by itself.
            if made_last && !in_place && self.uses[root.index()] == 1 && field + 1 == outputs.len()
            {
                if let Some(last) = self.operations.last_mut() {
                    last.to = Value::Output(field);
                }
                continue;
            }
            let from = vec![if kept[field] { Value::Kept(field) } else { Value::Node(root) }];
            let (element, to) = (outputs[field], Value::Output(field));
            self.operations.push(Draft { op: Drafted::Op(Op::Copy), element, to, from });
        }
        let mut last = HashMap::new();
        for (at, draft) in self.operations.iter().enumerate() {
            draft.from.iter().for_each(|value| {
                last.insert(*value, at);
            });
        }
        let first = self.places.len() as u16;
        let (mut free, mut next) = (Vec::new(), first);
        let mut places: HashMap<Value, u16> =
            self.places.iter().map(|(id, place)| (Value::Node(*id), *place)).collect();
        let mut operations = Vec::new();
        for (at, draft) in self.operations.iter().enumerate() {
            let from: Vec<u16> = draft.from.iter().map(|value| places[value]).collect();
            // The result gets its buffer before those of the operands are free: they differ.
            let to = match draft.to {
                Value::Output(field) => OUTPUT + field as u16,
                value => {
                    let place = free.pop().unwrap_or_else(|| {
                        next += 1;
                        next - 1
                    });
                    places.insert(value, place);
                    place
                }
            };
            operations.push(Placed { op: draft.op, element: draft.element, to, from });
            let mut ended: Vec<u16> = draft
                .from
                .iter()
                .filter(|value| last.get(value) == Some(&at))
                .map(|value| places[value])
                .filter(|place| *place >= first)
                .collect();
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended);
        }
        Operations {
            all: operations,
            reads: self.reads,
            numbers: self.numbers,
            buffers: next.into(),
        }
    }

    fn finish(self, lanes: Lanes, in_place: bool) -> Program {
        let (rule, outputs) = (self.rule, self.outputs());
        let Operations { all, reads, numbers, buffers } = self.placed(in_place);
        let instructions = Instructions::of(lanes);
        let operation = |Placed { op, element, to, from }| {
            let run = match op {
                Drafted::Op(op) => {
                    let run = find(op, element, rule.overflow, instructions);
                    Run::Loop(run, std::array::from_fn(|i| from.get(i).copied().unwrap_or(0)))
                }
                Drafted::Call(function) => Run::Call(function, from),
            };
            Operation { run, to }
        };
        Program {
            native: None,
            operations: all.into_iter().map(operation).collect(),
            reads,
            numbers,
            buffers,
            outputs,
            functions: rule.functions.clone(),
        }
    }
}

fn arithmetic(op: Binary) -> Option<Arithmetic> {
    match op {
        Binary::Add => Some(Arithmetic::Add),
        Binary::Sub => Some(Arithmetic::Sub),
        Binary::Mul => Some(Arithmetic::Mul),
        _ => None,
    }
}

/// Runs a program, with buffers of its own.
#[derive(Debug)]
pub struct Machine<'p> {
    program: &'p Program,
    /// The numbers, then the temporary values: the addresses lead into it.
    _memory: IoBuffer,
    addresses: Vec<*mut u8>,
}

// SAFETY: the addresses lead into the memory that the machine owns, or are set by each run.
unsafe impl Send for Machine<'_> {}

impl<'p> Machine<'p> {
    /// Allocates the buffers.
    pub fn new(program: &'p Program) -> Result<Self> {
        let own = program.buffers - program.reads.len();
        let mut memory = IoBuffer::new((own * BUFFER).max(1))?;
        for (&(value, element), buffer) in
            program.numbers.iter().zip(memory.as_mut_slice().chunks_exact_mut(BUFFER))
        {
            fill(buffer, value, element);
        }
        let start = memory.as_mut_ptr();
        let of_reads = program.reads.iter().map(|_| std::ptr::null_mut());
        let addresses = of_reads.chain((0..own).map(|i| start.wrapping_add(i * BUFFER))).collect();
        Ok(Machine { program, _memory: memory, addresses })
    }

    /// Computes the new values at `n` points.
    ///
    /// # Safety
    /// * `reads` must have the address of the first of `n` values of each read, in the order of
    ///   [`Program::reads`], and `outputs` that of each field. The values must be valid for reads
    ///   and writes, and no other thread may write what is read, nor access what is written.
    /// * Outputs must not overlap one another, and no values that are read; if the program is one
    ///   for outputs in place, they may be the values that are read at the points themselves.
    /// * The processor must have the instructions for which the program was compiled.
    #[inline]
    pub unsafe fn run(&mut self, reads: &[*const u8], outputs: &[*mut u8], n: usize) {
        debug_assert_eq!(
            (reads.len(), outputs.len()),
            (self.program.reads.len(), self.program.outputs.len())
        );
        if let Some(native) = &self.program.native {
            // SAFETY: the conditions are those of this function.
            return unsafe { native.run(reads, outputs, n) };
        }
        for from in (0..n).step_by(CHUNK) {
            let count = CHUNK.min(n - from);
            for ((address, read), (_, element)) in
                self.addresses.iter_mut().zip(reads).zip(&self.program.reads)
            {
                *address = read.wrapping_add(from * element.bytes()).cast_mut();
            }
            for operation in &self.program.operations {
                let to = match operation.to.checked_sub(OUTPUT) {
                    None => self.addresses[operation.to as usize],
                    Some(field) => {
                        let bytes = self.program.outputs[field as usize].bytes();
                        outputs[field as usize].wrapping_add(from * bytes)
                    }
                };
                let (run, from) = match &operation.run {
                    Run::Loop(run, from) => (run, from),
                    Run::Call(function, from) => {
                        // SAFETY: as for a loop, below.
                        unsafe { self.call(*function, to, from, count) };
                        continue;
                    }
                };
                let operands = from.map(|i| self.addresses[i as usize].cast_const());
                // SAFETY: the reads and the outputs have `count` values from `from` on, as the
                // caller guarantees, and the buffers have room for a chunk. A result never goes to
                // the buffer of an operand, and an output is written by an operation that reads it
                // only if the program is not one for outputs in place, in which case it is not
                // read at all. The caller guarantees the instructions.
                unsafe { run(to, operands, count) };
            }
        }
    }
}

impl Machine<'_> {
    /// Calls a function of the rule.
    ///
    /// # Safety
    /// The operands and the result must have `n` values of float64, of which no other thread
    /// accesses the result, nor writes the operands; the result must not be among the operands.
    unsafe fn call(&self, function: u16, to: *mut u8, from: &[u16], n: usize) {
        let Some(code) = &self.program.functions[function as usize].code else { return };
        let mut arguments = [std::ptr::null(); ARGUMENTS];
        for (argument, place) in arguments.iter_mut().zip(from) {
            let start = self.addresses[*place as usize].cast_const().cast::<f64>();
            debug_assert!(start.is_aligned());
            *argument = start;
        }
        // SAFETY: the caller guarantees the values; rings, windows and buffers begin with whole
        // lines of the cache, and the distances in them are those of values of this type. A call
        // writes to a buffer of the machine, never to an output.
        unsafe { code.call(&arguments[..from.len()], to.cast::<f64>(), n) };
    }
}

/// Fills a buffer with a number.
pub fn fill(buffer: &mut [u8], value: f64, element: ElementType) {
    let bytes = match element {
        ElementType::Float64 => value.to_le_bytes(),
        ElementType::Float32 => widened((value as f32).to_le_bytes()),
        ElementType::Uint8 => widened((value as u8).to_le_bytes()),
        ElementType::Int16 => widened((value as i16).to_le_bytes()),
        ElementType::Uint16 => widened((value as u16).to_le_bytes()),
        ElementType::Int32 => widened((value as i32).to_le_bytes()),
        ElementType::Int64 => (value as i64).to_le_bytes(),
        ElementType::Int8 => widened((value as i8).to_le_bytes()),
        ElementType::Uint32 => widened((value as u32).to_le_bytes()),
        ElementType::Bool => widened([u8::from(value != 0.0)]),
        ElementType::Float16 => widened(Half::from_f64(value).0.to_le_bytes()),
    };
    for place in buffer.chunks_exact_mut(element.bytes()) {
        place.copy_from_slice(&bytes[..element.bytes()]);
    }
}

fn widened<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}
