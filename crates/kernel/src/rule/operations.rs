//! Operations: what a step of a program computes, for real numbers defined once for all forms.
//!
//! # Contract
//! An [`Op`] is an operation as the compiler of a [`Program`](super::program) chooses it. On real
//! numbers it is a [`Computed`], a function over lanes, and [`real`] is the only table from one to
//! the other. A [`Form`] makes the code: a loop over a run of single values, see
//! [`loops`](super::loops), or a step of a block of vectors, see [`blocks`](super::blocks). Each
//! operation is rounded by itself, so all forms give the same bits; NaNs are the exception, as in
//! [`Lane`](crate::Lane).

use std::marker::PhantomData;

use syncline_store::ElementType;

use crate::described::graph::{Binary, Comparison, Unary};
use crate::described::scalar;
use crate::lanes::Vector;

/// An operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Unary(Unary),
    Binary(Binary),
    /// `((a + b) + c) + d`.
    Sum4,
    /// `a * b + c * d`. Real numbers only.
    Products,
    /// The first operation on a and b, then the second on the result and c. Real numbers only.
    Pair(Arithmetic, Then),
    /// The third if the comparison of the first two holds, and the fourth otherwise; all of one
    /// type.
    Select(Comparison),
    /// 1 where the comparison holds, and 0 elsewhere: bytes.
    Compare(Comparison),
    /// The second where the first, bytes, is not 0, and the third elsewhere.
    Choose,
    /// The value converted from this type.
    Cast(ElementType),
    Copy,
}

/// The first operation of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
}

/// The second operation of a pair, whose first result is `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// `x + c`.
    Add,
    /// `x - c`.
    Less,
    /// `c - x`.
    From,
    /// `x * c`.
    Times,
}

/// A function of `N` values, over lanes.
pub(super) trait Computed<const N: usize> {
    fn of<L: Vector>(values: [L; N]) -> L;
}

/// What makes the code of an operation.
pub(super) trait Form {
    /// The code.
    type Code;
    fn of<O: Computed<N>, const N: usize>(&self) -> Self::Code;
}

macro_rules! computed {
    ($($(#[$doc:meta])* $name:ident $count:literal ($($arg:ident),*) = $result:expr;)*) => {$(
        $(#[$doc])*
        enum $name {}

        impl Computed<$count> for $name {
            #[inline(always)]
            fn of<L: Vector>([$($arg),*]: [L; $count]) -> L {
                $result
            }
        }
    )*};
}

computed! {
    Copy 1 (a) = a;
    Neg 1 (a) = -a;
    Abs 1 (a) = a.abs();
    Sqrt 1 (a) = a.sqrt();
    Floor 1 (a) = each(a, scalar::floor);
    Exp 1 (a) = each(a, |a| scalar::function(Unary::Exp, a));
    Log 1 (a) = each(a, |a| scalar::function(Unary::Log, a));
    Sin 1 (a) = each(a, |a| scalar::function(Unary::Sin, a));
    Cos 1 (a) = each(a, |a| scalar::function(Unary::Cos, a));
    Add 2 (a, b) = a + b;
    Sub 2 (a, b) = a - b;
    From 2 (a, b) = b - a;
    Mul 2 (a, b) = a * b;
    Div 2 (a, b) = a / b;
    Min 2 (a, b) = a.min(b);
    Max 2 (a, b) = a.max(b);
    Rem 2 (a, b) = remainders(a, b);
    Sum4 4 (a, b, c, d) = a + b + c + d;
    Products 4 (a, b, c, d) = a * b + c * d;
    Less 4 (a, b, c, d) = L::choose(a.less(b), c, d);
    AtMost 4 (a, b, c, d) = a.choose_at_most(b, c, d);
    Equal 4 (a, b, c, d) = L::choose(a.equal(b), c, d);
}

/// `A`, then `B` on its result and another value.
struct Pair<A, B>(PhantomData<(A, B)>);

impl<A: Computed<2>, B: Computed<2>> Computed<3> for Pair<A, B> {
    #[inline(always)]
    fn of<L: Vector>([a, b, c]: [L; 3]) -> L {
        B::of([A::of([a, b]), c])
    }
}

/// Applies a function to each value.
#[inline(always)]
fn each<L: Vector>(mut vector: L, function: impl Fn(L::Element) -> L::Element) -> L {
    let values = (&raw mut vector).cast::<L::Element>();
    let mut i = 0;
    while i < L::WIDTH {
        // SAFETY: a vector consists of `WIDTH` values.
        unsafe { values.add(i).write(function(values.add(i).read())) };
        i += 1;
    }
    vector
}

#[inline(always)]
fn remainders<L: Vector>(mut vector: L, by: L) -> L {
    let values = (&raw mut vector).cast::<L::Element>();
    let by = (&raw const by).cast::<L::Element>();
    let mut i = 0;
    while i < L::WIDTH {
        // SAFETY: a vector consists of `WIDTH` values.
        unsafe {
            values.add(i).write(scalar::remainder(values.add(i).read(), by.add(i).read()));
        }
        i += 1;
    }
    vector
}

/// Returns the code of an operation on real numbers, if all its values are of one type.
pub(super) fn real<F: Form>(op: Op, form: &F) -> Option<F::Code> {
    Some(match op {
        Op::Copy => form.of::<Copy, 1>(),
        Op::Unary(op) => match op {
            Unary::Neg => form.of::<Neg, 1>(),
            Unary::Abs => form.of::<Abs, 1>(),
            Unary::Sqrt => form.of::<Sqrt, 1>(),
            Unary::Floor => form.of::<Floor, 1>(),
            Unary::Exp => form.of::<Exp, 1>(),
            Unary::Log => form.of::<Log, 1>(),
            Unary::Sin => form.of::<Sin, 1>(),
            Unary::Cos => form.of::<Cos, 1>(),
        },
        Op::Binary(op) => match op {
            Binary::Add => form.of::<Add, 2>(),
            Binary::Sub => form.of::<Sub, 2>(),
            Binary::Mul => form.of::<Mul, 2>(),
            Binary::Div => form.of::<Div, 2>(),
            Binary::Rem => form.of::<Rem, 2>(),
            Binary::Min => form.of::<Min, 2>(),
            Binary::Max => form.of::<Max, 2>(),
        },
        Op::Sum4 => form.of::<Sum4, 4>(),
        Op::Products => form.of::<Products, 4>(),
        Op::Pair(Arithmetic::Add, then) => paired::<Add, F>(then, form),
        Op::Pair(Arithmetic::Sub, then) => paired::<Sub, F>(then, form),
        Op::Pair(Arithmetic::Mul, then) => paired::<Mul, F>(then, form),
        Op::Select(Comparison::Less) => form.of::<Less, 4>(),
        Op::Select(Comparison::AtMost) => form.of::<AtMost, 4>(),
        Op::Select(Comparison::Equal) => form.of::<Equal, 4>(),
        Op::Compare(_) | Op::Choose | Op::Cast(_) => return None,
    })
}

fn paired<A: Computed<2>, F: Form>(then: Then, form: &F) -> F::Code {
    match then {
        Then::Add => form.of::<Pair<A, Add>, 3>(),
        Then::Less => form.of::<Pair<A, Sub>, 3>(),
        Then::From => form.of::<Pair<A, From>, 3>(),
        Then::Times => form.of::<Pair<A, Mul>, 3>(),
    }
}
