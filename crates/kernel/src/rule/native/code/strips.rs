//! The loop over some strips and some iterations in lock-step: see
//! [`fused`](crate::strip::fused), whose order of updates it has.
//!
//! ```text
//! rdi  the call                        rax  index in bytes
//! rdx  numbers                         rcx  its end
//! r9   the first strip                 r10, r11, rbx, rbp, r12 to r15  the others
//! ```
//!
//! A vector of a strip has the values of successive rows at one position. The neighbours in the row
//! above are those of the strip itself, moved by one, after the last value of the strip above: one
//! load and one instruction that joins both.

use std::mem::offset_of;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::{ADDRESSES, Body, Compiled, Compiler, FREE, Place};
use crate::described::graph::Read;
use crate::rule::Rule;
use crate::rule::native::StripsCall;
use crate::rule::native::instructions::Set;
use crate::strip::{FUSED, TOGETHER};

/// The register of the first strip.
const FIRST: Register = Register::R9;

/// A vector that consists of values of two strips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joined {
    /// The strip of most values, and the strip of the first value (of the `above`) or the last one.
    own: Register,
    other: Register,
    above: bool,
    /// The distance from the current position in bytes.
    distance: i64,
}

/// Compiles [`FUSED`] iterations over [`TOGETHER`] strips whose rows are skewed by `skew`.
pub(in super::super) fn strips(rule: &Rule, set: &Set, skew: usize) -> Option<Compiled> {
    let reads = rule.reads();
    let mut compiler = Compiler::new(rule, &reads, set)?;
    compiler.strips(skew as i64)?;
    compiler.finish()
}

/// Returns an operand in memory at a distance from the current position of a strip.
pub(super) fn in_strip(strip: Register, distance: i64) -> MemoryOperand {
    MemoryOperand::with_base_index_scale_displ_size(strip, Register::RAX, 1, distance, 1)
}

/// Returns the register of a strip, counted from the highest.
fn strip(at: usize) -> Register {
    if at == 0 { FIRST } else { ADDRESSES[at - 1] }
}

impl Compiler<'_> {
    fn strips(&mut self, skew: i64) -> Option<()> {
        use Register::{RAX, RCX, RDI, RDX};
        let vector = self.set.vector() as i64;
        let record = (self.rule.arrays.len() as i64) * vector;
        let saved = &ADDRESSES[FREE..];
        for &register in saved {
            self.emit(Instruction::with1(Code::Push_r64, register))?;
        }
        let fields = [(RDX, offset_of!(StripsCall, numbers)), (RCX, offset_of!(StripsCall, end))];
        let strips = (0..=ADDRESSES.len())
            .map(|at| (strip(at), offset_of!(StripsCall, strips) + at * size_of::<*mut u8>()));
        for (register, offset) in fields.into_iter().chain(strips) {
            let from = MemoryOperand::with_base_displ(RDI, offset as i64);
            self.emit(Instruction::with2(Code::Mov_r64_rm64, register, from))?;
        }
        self.keep_numbers()?;
        self.emit(Instruction::with2(Code::Xor_r64_rm64, RAX, RAX))?;
        let turn = self.mark();
        self.land(turn);
        for level in 0..FUSED {
            for row in 0..TOGETHER {
                // The strip of the row in this iteration; there is one above it and one below.
                let at = FUSED - level + row;
                let behind = (skew + 1) * level as i64;
                let place = |read: &Read| {
                    let [down, _, right] = read.offset.map(i64::from);
                    let distance = (right + skew * down - behind) * record;
                    match (read.array, down) {
                        (0, 0) => Some(Place::Strip(strip(at), distance)),
                        (0, -1 | 1) => Some(Place::Joined(Joined {
                            own: strip(at),
                            other: strip(if down < 0 { at - 1 } else { at + 1 }),
                            above: down < 0,
                            distance,
                        })),
                        (0, _) => None,
                        (n, _) => {
                            let of_array = i64::from(n) * vector - behind * record;
                            Some(Place::Strip(strip(at), of_array))
                        }
                    }
                };
                self.places = self.reads.iter().map(place).collect::<Option<_>>()?;
                self.places.push(Place::Strip(strip(at), -behind * record));
                self.body(false)?;
            }
        }
        self.emit(Instruction::with2(Code::Add_rm64_imm32, RAX, i32::try_from(record).ok()?))?;
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, RAX, RCX))?;
        self.emit(Instruction::with_branch(Code::Jl_rel32_64, turn))?;
        for &register in saved.iter().rev() {
            self.emit(Instruction::with1(Code::Pop_r64, register))?;
        }
        self.emit(Ok(Instruction::with(Code::VEX_Vzeroupper)))?;
        self.emit(Ok(Instruction::with(Code::Retnq)))
    }

    /// Loads a vector that consists of values of two strips. `others` keep what they have.
    pub(super) fn join(
        &mut self,
        body: &mut Body,
        to: Register,
        Joined { own, other, above, distance }: Joined,
        others: &[Register],
    ) -> Option<()> {
        let (load, values) = (self.set.moves().0, self.set.vector() / self.set.element.bytes());
        let (own, other) = (in_strip(own, distance), in_strip(other, distance));
        let [first, second] = if above { [own, other] } else { [other, own] };
        if self.set.wide {
            // Both in a row, the second below the first, are moved down.
            let moved = if above { values - 1 } else { 1 } as u32;
            let join = match self.set.element.bytes() {
                8 => Code::EVEX_Valignq_zmm_k1z_zmm_zmmm512b64_imm8,
                4 => Code::EVEX_Valignd_zmm_k1z_zmm_zmmm512b32_imm8,
                _ => return None,
            };
            self.emit(Instruction::with2(load, to, first))?;
            return self.emit(Instruction::with4(join, to, to, second, moved));
        }
        // The upper half of the upper strip and the lower half of the lower one.
        let [upper, lower] = if above { [other, own] } else { [own, other] };
        self.emit(Instruction::with2(load, to, upper))?;
        let halves = Code::VEX_Vperm2f128_ymm_ymm_ymmm256_imm8;
        self.emit(Instruction::with4(halves, to, to, lower, 0x21_u32))?;
        match (self.set.element.bytes(), above) {
            (8, true) => {
                let pairs = Code::VEX_Vshufpd_ymm_ymm_ymmm256_imm8;
                self.emit(Instruction::with4(pairs, to, to, own, 0b0101_u32))
            }
            (8, false) => {
                let values = self.beside(body, own, to, others)?;
                let pairs = Code::VEX_Vshufpd_ymm_ymm_ymmm256_imm8;
                self.emit(Instruction::with4(pairs, to, values, to, 0b0101_u32))
            }
            (4, true) => {
                let values = self.beside(body, own, to, others)?;
                let bytes = Code::VEX_Vpalignr_ymm_ymm_ymmm256_imm8;
                self.emit(Instruction::with4(bytes, to, values, to, 12_u32))
            }
            (4, false) => {
                let bytes = Code::VEX_Vpalignr_ymm_ymm_ymmm256_imm8;
                self.emit(Instruction::with4(bytes, to, to, own, 4_u32))
            }
            _ => None,
        }
    }

    /// Loads a vector to a register that is free again after the next instruction.
    fn beside(
        &mut self,
        body: &mut Body,
        from: MemoryOperand,
        to: Register,
        others: &[Register],
    ) -> Option<Register> {
        let kept: Vec<Register> = others.iter().copied().chain([to]).collect();
        let register = self.take(body, &kept)?;
        self.emit(Instruction::with2(self.set.moves().0, register, from))?;
        body.free.push(register);
        Some(register)
    }
}
