//! The loops of a program: one operation on a run of values.
//!
//! # Contract
//! A [`Loop`] computes `n` values from up to four operands of `n` values each. [`find`] returns the
//! loop of an operation for a type and for the vectors of the machine. All loops round each
//! operation by itself, so the results have the same bits whatever the vectors are; NaNs are the
//! exception, as in [`Lane`](crate::Lane). This file has the loops of whole numbers, of comparisons
//! and of conversions; those of real numbers are made of the functions in
//! [`operations`](super::operations).
//!
//! # Costs
//! Each value is loaded from, and stored to, the first-level cache: a loop with two operands takes
//! about one cycle for each 64 bytes with AVX-512. The compiler makes the vectors, from loops
//! without branches; each loop is compiled for every set of instructions.

use std::marker::PhantomData;

use syncline_store::ElementType;
use syncline_store::array::{Half, Number};

use super::Overflow;
use super::operations::{Computed, Form, Op, real as computed};
use crate::described::graph::{Binary, Comparison, Unary};
use crate::lanes::{Lanes, Real};

/// Computes `n` values at `to` from the operands.
///
/// # Safety
/// * `to` must be valid for writes, and each operand that the operation has valid for reads, of `n`
///   values of its type. They need not be aligned.
/// * No operand may overlap the values at `to`.
/// * The processor must have the instructions for which the loop was found.
pub(super) type Loop = unsafe fn(to: *mut u8, from: [*const u8; 4], n: usize);

/// The instructions for which loops are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    /// Those of every processor of the architecture.
    Every,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// Returns the instructions for these lanes, which the machine has.
    pub(super) fn of(lanes: Lanes) -> Self {
        match lanes {
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2 => Self::Avx2,
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512
                if std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                    && std::arch::is_x86_feature_detected!("avx512vl") =>
            {
                Self::Avx512
            }
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx512 => Self::Avx2,
            _ => Self::Every,
        }
    }
}

/// The operations on a whole number.
trait Value: Number + Ord {
    fn add(self, y: Self, saturating: bool) -> Self;
    fn sub(self, y: Self, saturating: bool) -> Self;
    fn mul(self, y: Self, saturating: bool) -> Self;
    fn div(self, y: Self, saturating: bool) -> Self;
    fn neg(self, saturating: bool) -> Self;
    fn abs(self, saturating: bool) -> Self;
    fn rem(self, y: Self) -> Self;
}

/// Numbers that can be compared.
trait Compared: Number + PartialOrd {}

impl<T: Number + PartialOrd> Compared for T {}

macro_rules! wholes {
    ($($whole:ty: |$n:ident, $saturating:ident| $neg:expr, $abs:expr;)*) => {$(
        impl Value for $whole {
            #[inline(always)]
            fn add(self, y: Self, saturating: bool) -> Self {
                if saturating { self.saturating_add(y) } else { self.wrapping_add(y) }
            }
            #[inline(always)]
            fn sub(self, y: Self, saturating: bool) -> Self {
                if saturating { self.saturating_sub(y) } else { self.wrapping_sub(y) }
            }
            #[inline(always)]
            fn mul(self, y: Self, saturating: bool) -> Self {
                if saturating { self.saturating_mul(y) } else { self.wrapping_mul(y) }
            }
            #[inline(always)]
            fn div(self, y: Self, saturating: bool) -> Self {
                if y == 0 {
                    0
                } else if saturating {
                    self.saturating_div(y)
                } else {
                    self.wrapping_div(y)
                }
            }
            #[inline(always)]
            fn neg(self, $saturating: bool) -> Self { let $n = self; $neg }
            #[inline(always)]
            fn abs(self, $saturating: bool) -> Self { let $n = self; $abs }
            #[inline(always)]
            fn rem(self, y: Self) -> Self {
                if y == 0 {
                    return 0;
                }
                let rest = self.wrapping_rem(y);
                #[allow(unused_comparisons)]
                if rest != 0 && (rest < 0) != (y < 0) { rest.wrapping_add(y) } else { rest }
            }
        }
    )*};
}

wholes! {
    u8: |n, s| if s { 0 } else { n.wrapping_neg() }, { let _ = s; n };
    u16: |n, s| if s { 0 } else { n.wrapping_neg() }, { let _ = s; n };
    u32: |n, s| if s { 0 } else { n.wrapping_neg() }, { let _ = s; n };
    i8: |n, s| if s { n.saturating_neg() } else { n.wrapping_neg() },
        if s { n.saturating_abs() } else { n.wrapping_abs() };
    i16: |n, s| if s { n.saturating_neg() } else { n.wrapping_neg() },
        if s { n.saturating_abs() } else { n.wrapping_abs() };
    i32: |n, s| if s { n.saturating_neg() } else { n.wrapping_neg() },
        if s { n.saturating_abs() } else { n.wrapping_abs() };
    i64: |n, s| if s { n.saturating_neg() } else { n.wrapping_neg() },
        if s { n.saturating_abs() } else { n.wrapping_abs() };
}

/// Defines a function that returns a loop for the instructions. The loop computes `result` from one
/// value of each operand.
macro_rules! loops {
    ($($(#[$doc:meta])* $name:ident<$($par:ident: $bound:path),*; $to:ty>
        ($($arg:ident: $from:ty),*) = $result:expr;)*) => {$(
        $(#[$doc])*
        fn $name<$($par: $bound),*>(instructions: Instructions) -> Loop {
            /// # Safety
            /// The conditions of [`Loop`] must hold, but for the instructions.
            #[inline(always)]
            unsafe fn every<$($par: $bound),*>(to: *mut u8, from: [*const u8; 4], n: usize) {
                let to = to.cast::<$to>();
                let [$($arg,)* ..] = from;
                $(let $arg = $arg.cast::<$from>();)*
                for i in 0..n {
                    // SAFETY: the caller guarantees that all operands and the results have `n`
                    // values.
                    unsafe {
                        $(let $arg = $arg.add(i).read_unaligned();)*
                        to.add(i).write_unaligned($result);
                    }
                }
            }
            /// # Safety
            /// The conditions of [`Loop`] must hold.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            unsafe fn avx2<$($par: $bound),*>(to: *mut u8, from: [*const u8; 4], n: usize) {
                // SAFETY: the conditions are those of this function.
                unsafe { every::<$($par),*>(to, from, n) }
            }
            /// # Safety
            /// The conditions of [`Loop`] must hold.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            unsafe fn avx512<$($par: $bound),*>(to: *mut u8, from: [*const u8; 4], n: usize) {
                // SAFETY: the conditions are those of this function.
                unsafe { every::<$($par),*>(to, from, n) }
            }
            match instructions {
                Instructions::Every => every::<$($par),*>,
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => avx2::<$($par),*>,
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => avx512::<$($par),*>,
            }
        }
    )*};
}

/// A choice that is made when a loop is compiled.
trait Choice: 'static {
    const SATURATING: bool;
}

enum Wrapping {}
enum Saturating {}

impl Choice for Wrapping {
    const SATURATING: bool = false;
}

impl Choice for Saturating {
    const SATURATING: bool = true;
}

/// A conversion from another type.
trait Converted<F>: Number {
    fn converted(value: F, saturating: bool) -> Self;
}

macro_rules! conversions {
    ($($to:ident: $($from:ident)*;)*) => {$($(
        impl Converted<$from> for $to {
            #[inline(always)]
            fn converted(value: $from, _: bool) -> Self { value as $to }
        }
    )*)*};
}

macro_rules! narrowing {
    ($($to:ident: $($from:ident)*;)*) => {$($(
        impl Converted<$from> for $to {
            #[inline(always)]
            fn converted(value: $from, saturating: bool) -> Self {
                if saturating {
                    let least = i64::from(<$to>::MIN).max(i64::from(<$from>::MIN)) as $from;
                    let most = i64::from(<$to>::MAX).min(i64::from(<$from>::MAX)) as $from;
                    value.clamp(least, most) as $to
                } else {
                    value as $to
                }
            }
        }
    )*)*};
}

conversions! {
    f64: f32 u8 i16 u16 i32 i64 i8 u32;
    f32: f64 u8 i16 u16 i32 i64 i8 u32;
    u8: f64 f32;
    i16: f64 f32;
    u16: f64 f32;
    i32: f64 f32;
    i64: f64 f32;
    i8: f64 f32;
    u32: f64 f32;
}

/// Conversions to float16, which are rounded once: those to float64 before are exact, or of numbers
/// that are infinite as float16 in any case.
macro_rules! halves {
    ($($from:ident)*) => {$(
        impl Converted<$from> for Half {
            #[inline(always)]
            fn converted(value: $from, _: bool) -> Self { Half::from_f64(value as f64) }
        }
    )*};
}

halves!(f64 f32 u8 i16 u16 i32 i64 i8 u32);

impl Converted<Half> for f32 {
    #[inline(always)]
    fn converted(value: Half, _: bool) -> Self {
        value.to_f32()
    }
}

narrowing! {
    u8: i16 u16 i32 i64 i8 u32;
    i16: u8 u16 i32 i64 i8 u32;
    u16: u8 i16 i32 i64 i8 u32;
    i32: u8 i16 u16 i64 i8 u32;
    i64: u8 i16 u16 i32 i8 u32;
    i8: u8 i16 u16 i32 i64 u32;
    u32: u8 i16 u16 i32 i64 i8;
}

loops! {
    add<T: Value, C: Choice; T>(a: T, b: T) = a.add(b, C::SATURATING);
    sub<T: Value, C: Choice; T>(a: T, b: T) = a.sub(b, C::SATURATING);
    mul<T: Value, C: Choice; T>(a: T, b: T) = a.mul(b, C::SATURATING);
    div<T: Value, C: Choice; T>(a: T, b: T) = a.div(b, C::SATURATING);
    min<T: Value; T>(a: T, b: T) = if a < b { a } else { b };
    max<T: Value; T>(a: T, b: T) = if b < a { a } else { b };
    neg<T: Value, C: Choice; T>(a: T) = a.neg(C::SATURATING);
    abs<T: Value, C: Choice; T>(a: T) = a.abs(C::SATURATING);
    rem<T: Value; T>(a: T, b: T) = a.rem(b);
    sum4<T: Value, C: Choice; T>(a: T, b: T, c: T, d: T) =
        a.add(b, C::SATURATING).add(c, C::SATURATING).add(d, C::SATURATING);
    select_less<T: Value; T>(a: T, b: T, c: T, d: T) = if a < b { c } else { d };
    select_at_most<T: Value; T>(a: T, b: T, c: T, d: T) = if a <= b { c } else { d };
    select_equal<T: Value; T>(a: T, b: T, c: T, d: T) = if a == b { c } else { d };
    compare_less<T: Compared; u8>(a: T, b: T) = u8::from(a < b);
    compare_at_most<T: Compared; u8>(a: T, b: T) = u8::from(a <= b);
    compare_equal<T: Compared; u8>(a: T, b: T) = u8::from(a == b);
    choose<T: Number; T>(a: u8, b: T, c: T) = if a == 0 { c } else { b };
    copy<T: Number; T>(a: T) = a;
    cast<T: Converted<F>, F: Number, C: Choice; T>(a: F) = T::converted(a, C::SATURATING);
}

/// Returns the loop of an operation whose results have the type, or, for a comparison, whose
/// operands do.
pub(super) fn find(
    op: Op,
    element: ElementType,
    overflow: Overflow,
    instructions: Instructions,
) -> Loop {
    match element {
        ElementType::Float64 => {
            real::<f64>(op, instructions).or_else(|| cast_to::<f64>(op, overflow, instructions))
        }
        ElementType::Float32 => {
            real::<f32>(op, instructions).or_else(|| cast_to::<f32>(op, overflow, instructions))
        }
        ElementType::Uint8 => whole::<u8>(op, overflow, instructions),
        ElementType::Int16 => whole::<i16>(op, overflow, instructions),
        ElementType::Uint16 => whole::<u16>(op, overflow, instructions),
        ElementType::Int32 => whole::<i32>(op, overflow, instructions),
        ElementType::Int64 => whole::<i64>(op, overflow, instructions),
        ElementType::Int8 => whole::<i8>(op, overflow, instructions),
        ElementType::Uint32 => whole::<u32>(op, overflow, instructions),
        // The bytes are only compared and chosen.
        ElementType::Bool => whole::<u8>(op, overflow, instructions),
        ElementType::Float16 => half(op, overflow, instructions),
    }
    .unwrap_or_else(|| unreachable!("there is no loop for {op:?} of {element}"))
}

/// All conversions to a type.
trait Convertible: Number {
    fn cast(from: ElementType, overflow: Overflow, instructions: Instructions) -> Option<Loop>;
}

macro_rules! convertible {
    ($($to:ident: $($from:ident $type:ident),*;)*) => {$(
        impl Convertible for $to {
            fn cast(from: ElementType, overflow: Overflow, instructions: Instructions) -> Option<Loop> {
                match (from, overflow) {
                    $(
                        (ElementType::$type, Overflow::Wrapping) => {
                            Some(cast::<$to, $from, Wrapping>(instructions))
                        }
                        (ElementType::$type, Overflow::Saturating) => {
                            Some(cast::<$to, $from, Saturating>(instructions))
                        }
                    )*
                    _ => None,
                }
            }
        }
    )*};
}

convertible! {
    f64: f32 Float32, u8 Uint8, i16 Int16, u16 Uint16, i32 Int32, i64 Int64, i8 Int8, u32 Uint32;
    f32: f64 Float64, u8 Uint8, i16 Int16, u16 Uint16, i32 Int32, i64 Int64, i8 Int8, u32 Uint32, Half Float16;
    u8: f64 Float64, f32 Float32, i16 Int16, u16 Uint16, i32 Int32, i64 Int64, i8 Int8, u32 Uint32;
    i16: f64 Float64, f32 Float32, u8 Uint8, u16 Uint16, i32 Int32, i64 Int64, i8 Int8, u32 Uint32;
    u16: f64 Float64, f32 Float32, u8 Uint8, i16 Int16, i32 Int32, i64 Int64, i8 Int8, u32 Uint32;
    i32: f64 Float64, f32 Float32, u8 Uint8, i16 Int16, u16 Uint16, i64 Int64, i8 Int8, u32 Uint32;
    i64: f64 Float64, f32 Float32, u8 Uint8, i16 Int16, u16 Uint16, i32 Int32, i8 Int8, u32 Uint32;
    i8: f64 Float64, f32 Float32, u8 Uint8, i16 Int16, u16 Uint16, i32 Int32, i64 Int64, u32 Uint32;
    u32: f64 Float64, f32 Float32, u8 Uint8, i16 Int16, u16 Uint16, i32 Int32, i64 Int64, i8 Int8;
    Half: f64 Float64, f32 Float32, u8 Uint8, i16 Int16, u16 Uint16, i32 Int32, i64 Int64, i8 Int8, u32 Uint32;
}

/// The loops of float16, with which nothing is computed.
fn half(op: Op, overflow: Overflow, i: Instructions) -> Option<Loop> {
    match op {
        Op::Choose => Some(choose::<Half>(i)),
        Op::Copy => Some(copy::<Half>(i)),
        other => cast_to::<Half>(other, overflow, i),
    }
}

fn cast_to<T: Convertible>(op: Op, overflow: Overflow, instructions: Instructions) -> Option<Loop> {
    match op {
        Op::Cast(from) => T::cast(from, overflow, instructions),
        _ => None,
    }
}

/// The loops that every type has but float16.
fn any<T: Compared>(op: Op, i: Instructions) -> Option<Loop> {
    Some(match op {
        Op::Compare(Comparison::Less) => compare_less::<T>(i),
        Op::Compare(Comparison::AtMost) => compare_at_most::<T>(i),
        Op::Compare(Comparison::Equal) => compare_equal::<T>(i),
        Op::Choose => choose::<T>(i),
        _ => return None,
    })
}

/// The loops of whole numbers; the result of some depends on the overflow.
fn arithmetic<T: Value, C: Choice>(op: Op, i: Instructions) -> Option<Loop> {
    Some(match op {
        Op::Unary(Unary::Neg) => neg::<T, C>(i),
        Op::Unary(Unary::Abs) => abs::<T, C>(i),
        Op::Binary(Binary::Add) => add::<T, C>(i),
        Op::Binary(Binary::Sub) => sub::<T, C>(i),
        Op::Binary(Binary::Mul) => mul::<T, C>(i),
        Op::Binary(Binary::Div) => div::<T, C>(i),
        Op::Binary(Binary::Rem) => rem::<T>(i),
        Op::Binary(Binary::Min) => min::<T>(i),
        Op::Binary(Binary::Max) => max::<T>(i),
        Op::Sum4 => sum4::<T, C>(i),
        Op::Select(Comparison::Less) => select_less::<T>(i),
        Op::Select(Comparison::AtMost) => select_at_most::<T>(i),
        Op::Select(Comparison::Equal) => select_equal::<T>(i),
        Op::Copy => copy::<T>(i),
        _ => return None,
    })
}

fn whole<T: Convertible + Value>(op: Op, overflow: Overflow, i: Instructions) -> Option<Loop> {
    let arithmetic = match overflow {
        Overflow::Wrapping => arithmetic::<T, Wrapping>(op, i),
        Overflow::Saturating => arithmetic::<T, Saturating>(op, i),
    };
    arithmetic.or_else(|| any::<T>(op, i)).or_else(|| cast_to::<T>(op, overflow, i))
}

fn real<T: Real + Compared>(op: Op, instructions: Instructions) -> Option<Loop> {
    let runs = Runs::<T> { instructions, of: PhantomData };
    computed(op, &runs).or_else(|| any::<T>(op, instructions))
}

/// Loops over runs of real numbers.
struct Runs<T> {
    instructions: Instructions,
    of: PhantomData<T>,
}

impl<T: Real> Form for Runs<T> {
    type Code = Loop;

    fn of<O: Computed<N>, const N: usize>(&self) -> Loop {
        match self.instructions {
            Instructions::Every => every::<T, O, N>,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => avx2::<T, O, N>,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => avx512::<T, O, N>,
        }
    }
}

/// # Safety
/// The conditions of [`Loop`] must hold, but for the instructions.
#[inline(always)]
unsafe fn every<T: Real, O: Computed<N>, const N: usize>(
    to: *mut u8,
    from: [*const u8; 4],
    n: usize,
) {
    let to = to.cast::<T>();
    for i in 0..n {
        let mut values = [T::default(); N];
        let mut k = 0;
        // SAFETY: the caller guarantees that all operands and the results have `n` values.
        unsafe {
            while k < N {
                values[k] = from[k].cast::<T>().add(i).read_unaligned();
                k += 1;
            }
            to.add(i).write_unaligned(O::of(values));
        }
    }
}

/// # Safety
/// The conditions of [`Loop`] must hold.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<T: Real, O: Computed<N>, const N: usize>(
    to: *mut u8,
    from: [*const u8; 4],
    n: usize,
) {
    // SAFETY: the conditions are those of this function.
    unsafe { every::<T, O, N>(to, from, n) }
}

/// # Safety
/// The conditions of [`Loop`] must hold.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<T: Real, O: Computed<N>, const N: usize>(
    to: *mut u8,
    from: [*const u8; 4],
    n: usize,
) {
    // SAFETY: the conditions are those of this function.
    unsafe { every::<T, O, N>(to, from, n) }
}
