//! Machine code of a rule, made at run time: one loop for all operations, in vector registers.
//!
//! # Contract
//! [`Native::new`] returns the code for a rule whose values all have one type, or `None` if it has
//! no code: on other processors, for values of several types, for operations that the processor
//! does not have for vectors of the type, or if the system allows no new code. A program is then
//! interpreted, see [`program`](super::program). The results are the same bits, NaNs excepted: the
//! code has the same operations, each rounded by itself, in the order of the graph; only a quotient
//! by a power of two is a product, which is the same number.
//!
//! ```text
//! rule   u + 0.1 * (old.n + old.s + old.e + old.w - 4 * u)
//! code   loop:  load z0 [north]   add z0 z0 [south]   add z0 z0 [east]   add z0 z0 [west]
//!               load z1 [u]       mul z2 z31 z1       sub z0 z0 z2
//!               mul z0 z30 z0     add z0 z1 z0        store [result] z0
//!               add index 64      jump to loop if index < end
//!        head, tail:  the same for parts of a vector, with a mask
//! ```
//!
//! There are three forms: [`Native`] for runs of points, whose values are adjacent in memory,
//! [`Vectors`] for some vectors of points, as the strips have them, and [`Strips`] for the whole
//! loop over strips.
//!
//! # Costs
//! A read is a load, or the operand of an operation in memory, per vector; numbers stay in
//! registers. The code of a rule of 10 operations has about 300 bytes and is made in some
//! microseconds.
//!
//! # Memory
//! The pages of the code are never writable and executable at once.
//!
//! # Source
//! Code for a stencil at run time: H. Stengel et al., "Quantifying performance bottlenecks of
//! stencil computations", ICS 2015, gives the bounds. Registers are assigned in one pass over the
//! graph, in which a read that has no register left is loaded again (rematerialisation: P. Briggs,
//! K. Cooper and L. Torczon, PLDI 1992).

#[cfg(target_arch = "x86_64")]
mod code;
#[cfg(target_arch = "x86_64")]
mod instructions;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use std::ffi::c_void;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use syncline_store::ElementType;
use syncline_store::direct_io::IoBuffer;

use super::Rule;
use super::loops::Instructions;
#[cfg(target_arch = "x86_64")]
use super::program::fill;
use crate::described::graph::Read;
use crate::strip::fused::STRIPS;

/// The bytes of the widest vector.
const WIDEST: usize = 64;

/// The least number of vectors of a run whose first vector is cut.
const LONG: usize = 16;

/// What the code takes: it updates the points of the vectors from index `start` on.
#[repr(C)]
struct Call {
    reads: *const *const u8,
    outputs: *const *mut u8,
    numbers: *const u8,
    /// The index in bytes of the first vector, which is below 0 if only its end is updated.
    start: isize,
    /// The index in bytes at which the vectors end that are updated as a whole.
    end: isize,
    /// The mask of the first vector, or 0 if it is updated as a whole.
    head: usize,
    /// The mask of the points behind the whole vectors, or 0 if there are none.
    tail: usize,
}

type OfRuns = unsafe extern "C" fn(call: *const Call);

type OfStrips = unsafe extern "C" fn(call: *const StripsCall);

/// The code for vectors takes the slots, the addresses of the coefficients, and the numbers.
type OfVectors =
    unsafe extern "C" fn(slots: *mut u8, coefficients: *const *const u8, numbers: *const u8);

/// The code of a rule for runs of points.
#[derive(Debug)]
pub(super) struct Native {
    function: Function,
    /// The bytes of a value, and of a vector.
    bytes: usize,
    vector: usize,
}

impl Native {
    /// Makes the code of a rule whose reads have the order of `reads`.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn new(
        rule: &Rule,
        reads: &[Read],
        element: ElementType,
        instructions: Instructions,
    ) -> Option<Self> {
        let set = instructions::Set::new(instructions, element, rule.overflow)?;
        let function = Function::new(&code::runs(rule, reads, &set)?, element)?;
        Some(Native { function, bytes: element.bytes(), vector: set.vector() })
    }

    /// There is no code for this processor.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn new(_: &Rule, _: &[Read], _: ElementType, _: Instructions) -> Option<Self> {
        None
    }

    /// Computes the new values at `n` points.
    ///
    /// # Safety
    /// The conditions of [`Machine::run`](super::program::Machine::run) must hold.
    #[inline]
    pub(super) unsafe fn run(&self, reads: &[*const u8], outputs: &[*mut u8], n: usize) {
        let (vector, bytes) = (self.vector, n * self.bytes);
        // Stores that cross lines of the cache take longest. The first vector of a long run is cut
        // so that the others store to whole lines.
        let off = outputs.first().map_or(0, |output| output.addr() % vector);
        let first = if off > 0 && bytes >= LONG * vector && off.is_multiple_of(self.bytes) {
            vector - off
        } else {
            0
        };
        let last = (bytes - first) % vector;
        let start = if first > 0 { first as isize - vector as isize } else { 0 };
        let call = Call {
            reads: reads.as_ptr(),
            outputs: outputs.as_ptr(),
            numbers: self.function.numbers.as_ptr(),
            start,
            end: (bytes - last) as isize,
            head: if first > 0 { self.mask(vector - first, first) } else { 0 },
            tail: if last > 0 { self.mask(0, last) } else { 0 },
        };
        // SAFETY: the text is a function of this type. It reads and writes `n` values from each
        // address, as the caller guarantees that it may; it loads all values of a vector before it
        // writes any, and masks keep it from others. The processor has the instructions.
        unsafe {
            let function = std::mem::transmute::<*const c_void, OfRuns>(self.function.text.start());
            function(&raw const call);
        }
    }

    /// Returns the mask of a part of a vector, in bytes: with AVX-512 the bits of its values, and
    /// otherwise the address of a vector.
    fn mask(&self, from: usize, bytes: usize) -> usize {
        /// Zeros, as many bytes of ones as a vector has, and zeros.
        static ONES: [u8; 96] = {
            let mut ones = [0; 96];
            let mut at = 32;
            while at < 64 {
                ones[at] = 0xff;
                at += 1;
            }
            ones
        };
        match (self.vector, from) {
            (WIDEST, _) => ((1 << (bytes / self.bytes)) - 1) << (from / self.bytes),
            // The ones end with the part, or begin with it.
            (_, 0) => ONES[64 - bytes..].as_ptr().addr(),
            _ => ONES[32 - from..].as_ptr().addr(),
        }
    }
}

/// The code of a rule with one field, whose neighbours touch, for some vectors of points.
#[derive(Debug)]
pub(crate) struct Vectors {
    function: Function,
}

impl Vectors {
    /// Makes the code for `count` vectors of the given bytes, or `None` if there is none.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn new(
        rule: &Rule,
        element: ElementType,
        bytes: usize,
        count: usize,
    ) -> Option<Self> {
        let set = set(rule, element, bytes)?;
        let function = Function::new(&code::vectors(rule, &set, count)?, element)?;
        Some(Vectors { function })
    }

    /// There is no code for this processor.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn new(_: &Rule, _: ElementType, _: usize, _: usize) -> Option<Self> {
        None
    }

    /// Computes the new values, to the first slot.
    ///
    /// # Safety
    /// * `slots` must be valid for reads and writes of the slots of the neighbours that the rule
    ///   reads: the point, north, west, east, south, north-west, south-east, north-east and
    ///   south-west, each of `count` vectors.
    /// * `coefficients` must be valid for reads of `count` addresses, each of one vector for every
    ///   coefficient.
    /// * The processor must have the instructions of these vectors.
    #[inline]
    pub(crate) unsafe fn run(&self, slots: *mut u8, coefficients: *const *const u8) {
        // SAFETY: the text is a function of this type, which accesses nothing else than the caller
        // guarantees that it may.
        unsafe {
            let function =
                std::mem::transmute::<*const c_void, OfVectors>(self.function.text.start());
            function(slots, coefficients, self.function.numbers.as_ptr());
        }
    }
}

/// What the code for strips takes: the strips at the first position, the bytes from there to the
/// end of the positions, and the numbers.
#[repr(C)]
struct StripsCall {
    strips: [*mut u8; STRIPS],
    end: usize,
    numbers: *const u8,
}

/// The code of a rule with one field, whose neighbours touch, for strips in some iterations: that
/// of [`fused`](crate::strip::fused).
#[derive(Debug)]
pub(crate) struct Strips {
    function: Function,
}

impl Strips {
    /// Makes the code for vectors of the given bytes and rows that are skewed by `skew`, or `None`
    /// if there is none.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn new(
        rule: &Rule,
        element: ElementType,
        bytes: usize,
        skew: usize,
    ) -> Option<Self> {
        let set = set(rule, element, bytes)?;
        let function = Function::new(&code::strips(rule, &set, skew)?, element)?;
        Some(Strips { function })
    }

    /// There is no code for this processor.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn new(_: &Rule, _: ElementType, _: usize, _: usize) -> Option<Self> {
        None
    }

    /// Updates [`TOGETHER`](crate::strip::TOGETHER) strips in [`FUSED`](crate::strip::FUSED)
    /// iterations, at the positions of the next `bytes` bytes; there must be one at least.
    ///
    /// # Safety
    /// The conditions of [`fused`](crate::strip::fused::fused) must hold for `strips`, which has
    /// the addresses of all strips that it reads, and for vectors of these bytes.
    pub(crate) unsafe fn run(&self, strips: [*mut u8; STRIPS], bytes: usize) {
        let numbers = self.function.numbers.as_ptr();
        let call = StripsCall { strips, end: bytes, numbers };
        // SAFETY: the text is a function of this type, which accesses nothing else than the caller
        // guarantees that it may.
        unsafe {
            let function =
                std::mem::transmute::<*const c_void, OfStrips>(self.function.text.start());
            function(&raw const call);
        }
    }
}

/// Returns the instructions for vectors of the given bytes.
#[cfg(target_arch = "x86_64")]
fn set(rule: &Rule, element: ElementType, bytes: usize) -> Option<instructions::Set> {
    let instructions = match bytes {
        WIDEST => Instructions::Avx512,
        32 => Instructions::Avx2,
        _ => return None,
    };
    instructions::Set::new(instructions, element, rule.overflow)
}

/// Machine code, and the numbers that it reads, each of which fills a vector.
#[derive(Debug)]
struct Function {
    text: Text,
    numbers: IoBuffer,
}

#[cfg(target_arch = "x86_64")]
impl Function {
    fn new(code: &code::Compiled, element: ElementType) -> Option<Self> {
        let mut numbers = IoBuffer::new((code.numbers.len() * WIDEST).max(1)).ok()?;
        for (place, number) in numbers.as_mut_slice().chunks_exact_mut(WIDEST).zip(&code.numbers) {
            match number {
                code::Number::Value(bits) => fill(place, f64::from_bits(*bits), element),
                code::Number::Bits(bits) => {
                    let bytes = bits.to_le_bytes();
                    let part = &bytes[bytes.len() - element.bytes()..];
                    place.chunks_exact_mut(part.len()).for_each(|to| to.copy_from_slice(part));
                }
            }
        }
        Some(Function { text: Text::new(&code.bytes)?, numbers })
    }
}

/// Memory that can be executed.
#[derive(Debug)]
struct Text {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: nothing writes to the memory any more.
unsafe impl Send for Text {}
// SAFETY: as for `Send`.
unsafe impl Sync for Text {}

impl Text {
    /// Copies code to memory that can be executed; `None` if the system has or allows none.
    fn new(code: &[u8]) -> Option<Self> {
        let bytes = code.len().next_multiple_of(rustix::param::page_size());
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is a new one.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, writable, MapFlags::PRIVATE).ok()?
        };
        let text = Text { start: NonNull::new(start)?, bytes };
        // SAFETY: the mapping has room for the code, is this function's own, and nothing has a
        // reference to it.
        unsafe {
            code.as_ptr().copy_to_nonoverlapping(start.cast(), code.len());
            mprotect(start, bytes, MprotectFlags::READ | MprotectFlags::EXEC).ok()?;
        }
        Some(text)
    }

    fn start(&self) -> *const c_void {
        self.start.as_ptr()
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no call of the code outlives the value.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}
