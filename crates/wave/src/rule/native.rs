//! Machine code of a rule, made at run time: one loop for all operations, in vector registers.
//!
//! # Contract
//! [`Native::new`] returns the code for a rule whose values all have one type, or `None` if it has
//! no code: on other processors, for values of several types, for operations that the processor
//! does not have for vectors of the type, or if the system allows no new code. A program is then
//! interpreted, see [`program`](super::program). The results are the same bits, NaNs excepted: the
//! code has the same operations, each rounded by itself, in the order of the graph; only a quotient by
//! a power of two is a product, which is the same number.
//!
//! ```text
//! rule   u + 0.1 * (old.n + old.s + old.e + old.w - 4 * u)
//! code   loop:  load z0 [north]   add z0 z0 [south]   add z0 z0 [east]   add z0 z0 [west]
//!               load z1 [u]       mul z2 z31 z1       sub z0 z0 z2
//!               mul z0 z30 z0     add z0 z1 z0        store [result] z0
//!               add index 64      jump to loop if index < end
//!        tail:  the same for the points that are left, with a mask
//! ```
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
use syncline_store::direct_io::IoBuffer;

use super::program::fill;

/// The bytes of the widest vector.
const WIDEST: usize = 64;

/// The code: takes the addresses of the reads, those of the outputs, the numbers, the bytes of all
/// whole vectors, and the mask of the points that are left, or 0 if there are none.
type Function = unsafe extern "C" fn(
    reads: *const *const u8,
    outputs: *const *mut u8,
    numbers: *const u8,
    whole: usize,
    mask: usize,
);

/// The code of a rule, and its numbers.
#[derive(Debug)]
pub(super) struct Native {
    text: Text,
    /// Each number fills a vector.
    numbers: IoBuffer,
    /// The bytes of a value, and of a vector.
    bytes: usize,
    vector: usize,
}

impl Native {
    /// Makes the code of a rule whose reads have the order of `reads`.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn new(
        rule: &super::Rule,
        reads: &[crate::described::graph::Read],
        element: syncline_store::ElementType,
        instructions: super::loops::Instructions,
    ) -> Option<Self> {
        let set = instructions::Set::new(instructions, element, rule.overflow)?;
        let code = code::compile(rule, reads, &set)?;
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
        let text = Text::new(&code.bytes)?;
        Some(Native { text, numbers, bytes: element.bytes(), vector: set.vector() })
    }

    /// Computes the new values at `n` points.
    ///
    /// # Safety
    /// The conditions of [`Machine::run`](super::program::Machine::run) must hold.
    #[inline]
    pub(super) unsafe fn run(&self, reads: &[*const u8], outputs: &[*mut u8], n: usize) {
        /// The mask of AVX2 for `n` bytes begins `n` bytes before its middle.
        static MASK: [u8; 64] = {
            let mut mask = [0; 64];
            let mut at = 0;
            while at < 32 {
                mask[at] = 0xff;
                at += 1;
            }
            mask
        };
        let all = n * self.bytes;
        let left = all % self.vector;
        let mask = match (left, self.vector) {
            (0, _) => 0,
            (_, WIDEST) => (1_usize << (left / self.bytes)) - 1,
            _ => MASK[32 - left..].as_ptr().addr(),
        };
        // SAFETY: the text is a function of this type. It reads and writes `n` values from each
        // address, as the caller guarantees that it may; it loads all values of a vector before it
        // writes any, and a mask keeps it from others. The processor has the instructions.
        unsafe {
            let function = std::mem::transmute::<*const c_void, Function>(self.text.start());
            let numbers = self.numbers.as_ptr();
            function(reads.as_ptr(), outputs.as_ptr(), numbers, all - left, mask);
        }
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
