//! Compiles a rule to machine code of x86-64, for functions with the System V calling convention.
//!
//! ```text
//!      runs                            vectors
//! rdi  addresses of the reads          the slots
//! rsi  addresses of the outputs        addresses of the coefficients
//! rdx  numbers                         numbers
//! rcx  end of the whole vectors
//! rax  index in bytes
//! r8   the call, then the mask of the tail
//! r9   an address that has no register of its own
//! r10  an address                      the coefficients of one vector
//! r11, rbx, rbp, r12 to r15  addresses
//!      k1, or the last vector register: a mask     k2, or a vector register: a comparison
//! ```
//!
//! A read or a number is loaded where it is needed first and keeps its register until its last use;
//! if the registers do not suffice, it gives up its register and is loaded again. The first numbers
//! keep their registers for the whole loop.

mod strips;

use std::mem::offset_of;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, IcedError, Instruction, InstructionBlock,
    MemoryOperand, Register,
};

use self::strips::{Joined, in_strip};
use super::instructions::{One, Set};
use super::{Call, WIDEST};
use crate::described::graph::{Binary, Comparison, Id, Node, Read};
use crate::rule::Rule;

/// A number that fills a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// A value, by its bits as a float64.
    Value(u64),
    /// The highest of these bits, as many as a value has.
    Bits(u64),
}

/// The code, and the numbers that it reads.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) bytes: Vec<u8>,
    pub(super) numbers: Vec<Number>,
}

/// The registers for addresses; a function must keep all but the first two.
const ADDRESSES: [Register; 8] = [
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
const FREE: usize = 2;
/// The neighbours of the slots, as distances in rows and columns.
const SLOTS: [[i8; 2]; 9] =
    [[0, 0], [-1, 0], [0, -1], [0, 1], [1, 0], [-1, -1], [1, 1], [-1, 1], [1, -1]];
/// The register of AVX2 for the mask of a part.
const MASK: Register = Register::YMM15;

pub(super) use self::strips::strips;

/// Compiles the loop over runs of points; returns `None` if there is no instruction for an
/// operation, or if there are too few registers.
pub(super) fn runs(rule: &Rule, reads: &[Read], set: &Set) -> Option<Compiled> {
    let mut compiler = Compiler::new(rule, reads, set)?;
    compiler.runs()?;
    compiler.finish()
}

/// Compiles the update of `count` vectors of points: from the slots of the neighbours, in which the
/// vectors of a slot are adjacent, and from the coefficients of each vector, to the first slot.
pub(super) fn vectors(rule: &Rule, set: &Set, count: usize) -> Option<Compiled> {
    let reads = rule.reads();
    let mut compiler = Compiler::new(rule, &reads, set)?;
    compiler.vectors(count)?;
    compiler.finish()
}

/// Returns the inverse of a divisor that is a power of two: a product with it is the quotient, bit
/// for bit, and takes a fraction of the time.
fn inverse(rule: &Rule, set: &Set, divisor: Id) -> Option<Number> {
    /// The bits of a float64 below its exponent.
    const FRACTION: u64 = (1 << 52) - 1;
    let Node::Constant(bits, _) = rule.graph.node(divisor) else { return None };
    let value = f64::from_bits(bits);
    // In this range the power and its inverse are normal numbers of both types.
    let exact = bits & FRACTION == 0 && (1e-30..1e30).contains(&value.abs());
    (exact && set.element.is_real()).then(|| Number::Value((1.0 / value).to_bits()))
}

/// A value in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// One of the numbers.
    Number(usize),
    /// One of the reads.
    Read(usize),
    /// The result of an operation.
    Result(Id),
}

struct Compiler<'c> {
    rule: &'c Rule,
    reads: &'c [Read],
    set: &'c Set,
    nodes: Vec<Id>,
    numbers: Vec<Number>,
    places: Vec<Place>,
    out: Vec<Instruction>,
    /// The number of places to which jumps lead.
    marks: u64,
}

/// The place of a read or of an output.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// An element of the tables of addresses, to which the index is added.
    Table(usize),
    /// A distance from an address in a register.
    At(Register, i64),
    /// A distance from the current position of a strip, whose address is in a register.
    Strip(Register, i64),
    /// Values of two strips.
    Joined(Joined),
}

/// The registers while the operations for one vector are emitted.
struct Body {
    /// Whether only a part of the vector is loaded and stored.
    part: bool,
    /// For each node the number of uses that are left.
    uses: Vec<u32>,
    free: Vec<Register>,
    held: Vec<(Value, Register)>,
}

impl<'c> Compiler<'c> {
    fn new(rule: &'c Rule, reads: &'c [Read], set: &'c Set) -> Option<Self> {
        let nodes = rule.graph.needed(&rule.roots);
        let mut numbers = Vec::new();
        for &id in &nodes {
            let number = match rule.graph.node(id) {
                Node::Constant(bits, _) => Number::Value(bits),
                Node::Unary(op, _) => match set.unary(op)? {
                    One::With(_, bits) => Number::Bits(bits),
                    One::FromZero(_) => Number::Bits(0),
                    One::Of(_) | One::How(..) => continue,
                },
                Node::Binary(Binary::Div, _, y) => match inverse(rule, set, y) {
                    Some(number) => number,
                    None => continue,
                },
                _ => continue,
            };
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let places = (0..reads.len() + rule.fields).map(Place::Table).collect();
        Some(Compiler { rule, reads, set, nodes, numbers, places, out: Vec::new(), marks: 0 })
    }

    fn finish(self) -> Option<Compiled> {
        let block = InstructionBlock::new(&self.out, 0);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?;
        Some(Compiled { bytes: encoded.code_buffer, numbers: self.numbers })
    }

    fn emit(&mut self, instruction: Result<Instruction, IcedError>) -> Option<()> {
        self.out.push(instruction.ok()?);
        Some(())
    }

    fn vectors(&mut self, count: usize) -> Option<()> {
        let vector = self.set.vector();
        self.keep_numbers()?;
        for at in 0..count {
            let coefficients = MemoryOperand::with_base_displ(Register::RSI, (at * 8) as i64);
            self.emit(Instruction::with2(Code::Mov_r64_rm64, Register::R10, coefficients))?;
            let place = |read: &Read| match (read.array, read.offset) {
                (0, [down, _, right]) => {
                    let slot = SLOTS.iter().position(|slot| *slot == [down, right])?;
                    Some(Place::At(Register::RDI, ((slot * count + at) * vector) as i64))
                }
                (n, _) => Some(Place::At(Register::R10, ((n as usize - 1) * vector) as i64)),
            };
            self.places = self.reads.iter().map(place).collect::<Option<_>>()?;
            self.places.push(Place::At(Register::RDI, (at * vector) as i64));
            self.body(false)?;
        }
        self.emit(Ok(Instruction::with(Code::Retnq)))
    }

    /// Loads the numbers that keep their registers.
    fn keep_numbers(&mut self) -> Option<()> {
        for number in 0..self.kept() {
            let (load, to, from) = (self.set.moves().0, self.vector(number), number_at(number));
            self.emit(Instruction::with2(load, to, from))?;
        }
        Some(())
    }

    fn runs(&mut self) -> Option<()> {
        use Register::{R8, R9, RAX, RCX, RDI, RDX, RSI};
        let addresses = ADDRESSES.len().min(self.reads.len() + self.rule.fields);
        let saved = &ADDRESSES[FREE.min(addresses)..addresses];
        for &register in saved {
            self.emit(Instruction::with1(Code::Push_r64, register))?;
        }
        self.emit(Instruction::with2(Code::Mov_r64_rm64, R8, RDI))?;
        let fields = [
            (RDI, offset_of!(Call, reads)),
            (RSI, offset_of!(Call, outputs)),
            (RDX, offset_of!(Call, numbers)),
            (RAX, offset_of!(Call, start)),
            (RCX, offset_of!(Call, end)),
            (R9, offset_of!(Call, head)),
            (R8, offset_of!(Call, tail)),
        ];
        for (register, offset) in fields {
            let from = MemoryOperand::with_base_displ(R8, offset as i64);
            self.emit(Instruction::with2(Code::Mov_r64_rm64, register, from))?;
        }
        self.keep_numbers()?;
        for (at, register) in ADDRESSES.into_iter().enumerate().take(addresses) {
            self.emit(Instruction::with2(Code::Mov_r64_rm64, register, self.table(at)))?;
        }
        let (whole, turn, tail, end) = (self.mark(), self.mark(), self.mark(), self.mark());
        self.masked(R9, whole)?;
        self.step()?;
        self.land(whole);
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, RAX, RCX))?;
        self.emit(Instruction::with_branch(Code::Jge_rel32_64, tail))?;
        self.land(turn);
        self.body(false)?;
        self.step()?;
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, RAX, RCX))?;
        self.emit(Instruction::with_branch(Code::Jl_rel32_64, turn))?;
        self.land(tail);
        self.masked(R8, end)?;
        self.land(end);
        for &register in saved.iter().rev() {
            self.emit(Instruction::with1(Code::Pop_r64, register))?;
        }
        self.emit(Ok(Instruction::with(Code::VEX_Vzeroupper)))?;
        self.emit(Ok(Instruction::with(Code::Retnq)))
    }

    /// Emits the operations for a part of a vector, which are skipped if there is no mask.
    fn masked(&mut self, mask: Register, skip: u64) -> Option<()> {
        self.emit(Instruction::with2(Code::Test_rm64_r64, mask, mask))?;
        self.emit(Instruction::with_branch(Code::Je_rel32_64, skip))?;
        self.emit(match self.set.wide {
            true => Instruction::with2(Code::VEX_Kmovq_kr_r64, Register::K1, mask),
            false => {
                let from = MemoryOperand::with_base(mask);
                Instruction::with2(Code::VEX_Vmovdqu_ymm_ymmm256, MASK, from)
            }
        })?;
        self.body(true)
    }

    /// Emits the step to the next vector.
    fn step(&mut self) -> Option<()> {
        let vector = self.set.vector() as i32;
        self.emit(Instruction::with2(Code::Add_rm64_imm32, Register::RAX, vector))
    }

    /// Returns a place to which jumps can lead.
    fn mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    /// Puts a place here.
    fn land(&mut self, mark: u64) {
        let mut here = Instruction::with(Code::Nopd);
        here.set_ip(mark);
        self.out.push(here);
    }

    fn vector(&self, at: usize) -> Register {
        let first = if self.set.wide { Register::ZMM0 } else { Register::YMM0 };
        first + at as u32
    }

    /// Returns the number of numbers that keep their registers.
    fn kept(&self) -> usize {
        self.numbers.len().min(if self.set.wide { 16 } else { 4 })
    }

    /// Returns the place of an address in the tables: those of the reads, then the outputs.
    fn table(&self, at: usize) -> MemoryOperand {
        let (base, at) = match at.checked_sub(self.reads.len()) {
            None => (Register::RDI, at),
            Some(output) => (Register::RSI, output),
        };
        MemoryOperand::with_base_displ(base, (at * 8) as i64)
    }

    /// Returns the operand in memory of a read or of an output. It is valid up to the next one.
    fn place(&mut self, at: usize) -> Option<MemoryOperand> {
        let at = match self.places[at] {
            Place::Table(at) => at,
            Place::At(base, distance) => {
                return Some(MemoryOperand::with_base_displ(base, distance));
            }
            Place::Strip(strip, distance) => return Some(in_strip(strip, distance)),
            Place::Joined(_) => return None,
        };
        let base = match ADDRESSES.get(at) {
            Some(register) => *register,
            None => {
                let from = self.table(at);
                self.emit(Instruction::with2(Code::Mov_r64_rm64, Register::R9, from))?;
                Register::R9
            }
        };
        Some(MemoryOperand::with_base_index(base, Register::RAX))
    }

    /// Emits the operations for one vector.
    fn body(&mut self, part: bool) -> Option<()> {
        let mut uses = vec![0_u32; self.rule.graph.len()];
        for id in &self.nodes {
            self.rule.graph.node(*id).operands().for_each(|operand| uses[operand.index()] += 1);
        }
        self.rule.roots.iter().for_each(|root| uses[root.index()] += 1);
        let all = if self.set.wide { 32 } else { 16 - usize::from(part) };
        let kept = self.kept();
        let free = (kept..all).rev().map(|at| self.vector(at)).collect();
        let held = (0..kept).map(|at| (Value::Number(at), self.vector(at))).collect();
        let mut body = Body { part, uses, free, held };
        for id in self.nodes.clone() {
            self.operation(&mut body, id)?;
        }
        // All values are in registers before one is stored: an output may be a read.
        let mut results = Vec::new();
        for &root in &self.rule.roots {
            results.push(self.operand(&mut body, self.value(root)?, &results)?);
        }
        for (field, from) in results.into_iter().enumerate() {
            let to = self.place(self.reads.len() + field)?;
            self.emit(match (part, self.set.wide) {
                (true, false) => Instruction::with3(self.set.masked().1, to, MASK, from),
                _ => Instruction::with2(self.set.moves().1, to, from).map(|mut store| {
                    if part {
                        store.set_op_mask(Register::K1);
                    }
                    store
                }),
            })?;
        }
        Some(())
    }

    fn value(&self, id: Id) -> Option<Value> {
        Some(match self.rule.graph.node(id) {
            Node::Constant(bits, _) => self.number(Number::Value(bits))?,
            Node::Read(read) => Value::Read(self.reads.iter().position(|other| *other == read)?),
            _ => Value::Result(id),
        })
    }

    fn number(&self, number: Number) -> Option<Value> {
        self.numbers.iter().position(|other| *other == number).map(Value::Number)
    }

    /// Returns the register of a value, after it has been loaded if need be. The registers of
    /// `others` keep what they have.
    fn operand(&mut self, body: &mut Body, value: Value, others: &[Register]) -> Option<Register> {
        if let Some((_, register)) = body.held.iter().find(|(held, _)| *held == value) {
            return Some(*register);
        }
        let to = self.take(body, others)?;
        let load = self.set.moves().0;
        let load = match value {
            // The vectors of results are never given up.
            Value::Result(_) => return None,
            Value::Number(number) => Instruction::with2(load, to, number_at(number)),
            Value::Read(read) => {
                if let Place::Joined(joined) = self.places[read] {
                    self.join(body, to, joined, others)?;
                    body.held.push((value, to));
                    return Some(to);
                }
                let from = self.place(read)?;
                match (body.part, self.set.wide) {
                    (false, _) => Instruction::with2(load, to, from),
                    (true, false) => Instruction::with3(self.set.masked().0, to, MASK, from),
                    (true, true) => Instruction::with2(load, to, from).map(|mut load| {
                        load.set_op_mask(Register::K1);
                        load.set_zeroing_masking(true);
                        load
                    }),
                }
            }
        };
        self.emit(load)?;
        body.held.push((value, to));
        Some(to)
    }

    /// Returns a register for a new value.
    fn take(&self, body: &mut Body, others: &[Register]) -> Option<Register> {
        body.free.pop().or_else(|| {
            let given_up = |(value, register): &(Value, Register)| match value {
                Value::Result(_) => false,
                Value::Number(number) => *number >= self.kept() && !others.contains(register),
                Value::Read(_) => !others.contains(register),
            };
            let at = body.held.iter().position(given_up)?;
            Some(body.held.remove(at).1)
        })
    }

    /// Returns the operand in memory of a value that needs no register.
    fn memory(&mut self, body: &Body, id: Id) -> Option<MemoryOperand> {
        if !self.is_in_memory(body, id) {
            return None;
        }
        match self.value(id)? {
            Value::Number(number) => Some(number_at(number)),
            Value::Read(read) => self.place(read),
            Value::Result(_) => None,
        }
    }

    fn is_in_memory(&self, body: &Body, id: Id) -> bool {
        let value = self.value(id);
        let held = body.held.iter().any(|(held, _)| Some(*held) == value);
        !held
            && match value {
                Some(Value::Number(_)) => true,
                // What a mask leaves out must not be read.
                Some(Value::Read(read)) => {
                    let is_joined = matches!(self.places[read], Place::Joined(_));
                    !body.part && !is_joined && body.uses[id.index()] == 1
                }
                _ => false,
            }
    }

    /// Notes that a value has been used; after the last use its register is free.
    fn used(&self, body: &mut Body, id: Id) {
        let uses = &mut body.uses[id.index()];
        *uses -= 1;
        let value = self.value(id);
        let kept = matches!(value, Some(Value::Number(number)) if number < self.kept());
        if *uses > 0 || kept {
            return;
        }
        if let Some(at) = body.held.iter().position(|(held, _)| Some(*held) == value) {
            body.free.push(body.held.remove(at).1);
        }
    }

    /// Emits the operation of a node.
    fn operation(&mut self, body: &mut Body, id: Id) -> Option<()> {
        match self.rule.graph.node(id) {
            Node::Read(_) | Node::Constant(..) => Some(()),
            Node::Cast(..) | Node::Call(..) => None,
            Node::Unary(op, x) => {
                let one = self.set.unary(op)?;
                let from = self.operand(body, self.value(x)?, &[])?;
                let number = match one {
                    One::Of(_) | One::How(..) => None,
                    One::With(_, bits) => Some(bits),
                    One::FromZero(_) => Some(0),
                };
                let number = match number {
                    None => None,
                    Some(bits) => {
                        let number = self.number(Number::Bits(bits))?;
                        Some(self.operand(body, number, &[from])?)
                    }
                };
                self.used(body, x);
                let to = self.result(body, id)?;
                self.emit(match (one, number) {
                    (One::With(code, _), Some(bits)) => Instruction::with3(code, to, from, bits),
                    (One::FromZero(code), Some(zero)) => Instruction::with3(code, to, zero, from),
                    (One::How(code, how), _) => Instruction::with3(code, to, from, how),
                    (One::Of(code) | One::With(code, _) | One::FromZero(code), _) => {
                        Instruction::with2(code, to, from)
                    }
                })
            }
            Node::Binary(Binary::Div, x, y) if inverse(self.rule, self.set, y).is_some() => {
                let first = self.operand(body, self.value(x)?, &[])?;
                let number = self.number(inverse(self.rule, self.set, y)?)?;
                let second = self.operand(body, number, &[first])?;
                self.used(body, x);
                self.used(body, y);
                let to = self.result(body, id)?;
                self.emit(Instruction::with3(self.set.binary(Binary::Mul)?, to, first, second))
            }
            Node::Binary(op, x, y) => {
                let code = self.set.binary(op)?;
                let exchange = matches!(op, Binary::Add | Binary::Mul)
                    && self.is_in_memory(body, x)
                    && !self.is_in_memory(body, y);
                let (x, y) = if exchange { (y, x) } else { (x, y) };
                let first = self.operand(body, self.value(x)?, &[])?;
                if let Some(second) = self.memory(body, y) {
                    self.used(body, x);
                    self.used(body, y);
                    let to = self.result(body, id)?;
                    return self.emit(Instruction::with3(code, to, first, second));
                }
                let second = self.operand(body, self.value(y)?, &[first])?;
                self.used(body, x);
                self.used(body, y);
                let to = self.result(body, id)?;
                self.emit(Instruction::with3(code, to, first, second))
            }
            Node::Select(comparison, operands) => self.choice(body, id, comparison, operands),
        }
    }

    /// Returns a register for the result of a node, whose operands have been used. It may be the
    /// register of an operand: an instruction reads its operands first.
    fn result(&self, body: &mut Body, id: Id) -> Option<Register> {
        let to = self.take(body, &[])?;
        body.held.push((Value::Result(id), to));
        Some(to)
    }

    fn choice(
        &mut self,
        body: &mut Body,
        id: Id,
        comparison: Comparison,
        [p, q, x, y]: [Id; 4],
    ) -> Option<()> {
        let (compare, how, blend) = self.set.choice(comparison);
        let left = self.operand(body, self.value(p)?, &[])?;
        let right = self.operand(body, self.value(q)?, &[left])?;
        let mask = match self.set.wide {
            true => Register::K2,
            false => self.take(body, &[left, right])?,
        };
        self.emit(Instruction::with4(compare, mask, left, right, how))?;
        self.used(body, p);
        self.used(body, q);
        let chosen = self.operand(body, self.value(x)?, &[])?;
        let other = self.operand(body, self.value(y)?, &[chosen])?;
        self.used(body, x);
        self.used(body, y);
        let to = self.result(body, id)?;
        if self.set.wide {
            return self.emit(Instruction::with3(blend, to, other, chosen).map(|mut blend| {
                blend.set_op_mask(mask);
                blend
            }));
        }
        self.emit(Instruction::with4(blend, to, other, chosen, mask))?;
        body.free.push(mask);
        Some(())
    }
}

/// Returns the operand in memory of a number.
fn number_at(number: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ(Register::RDX, (number * WIDEST) as i64)
}
