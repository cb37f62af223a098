//! Steps: the instructions of a compiled update, and the loop that executes them.
//!
//! # The machine
//! All values are `R` vectors at once. The machine has an accumulator, kept in registers; slots,
//! which the caller provides; the coefficients, read where the engine stores them; and constants.
//!
//! ```text
//! slots   0        1      2     3     4      5           6           7           8           9 ..
//!         centre   north  west  east  south  north-west  south-east  north-east  south-west  free
//!
//! qa = s*zr + n*zb + e*zu + w*zv + zz      Products s zr n zb       a = s * zr + n * zb
//! za + relax * (qa - za)                   AddProducts e zu w zv    a = a + e * zu + w * zv
//!                                          AddC zz                  a = a + zz
//!                                          Relax za relax           a = za + relax * (a - za)
//! ```
//!
//! # Costs
//! Per step, one jump, which is predicted well because it is the same at every point; per operand
//! that is not a constant, one load per vector. The loop is one function per vector type, separate
//! from the loop of the engine.
//!
//! # Source
//! Vectorised interpretation is from P. Boncz (MonetDB/X100, CIDR 2005). An accumulator and steps
//! that combine several operations are as in A. Ertl and D. Gregg, "The structure and performance
//! of efficient interpreters", JILP 5 (2003).

use syncline_store::Element;

use super::graph::Unary;
use super::scalar;
use crate::lanes::Vector;
use crate::{Neighbour, Stencil};

/// The number of slots.
pub(super) const SLOTS: usize = 64;
/// The number of slots for the point and its neighbours; the others are free.
pub(super) const NEIGHBOURS: usize = 9;

/// The place of an operand: the index within its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Slot(u8),
    Coefficient(u8),
    Constant(u8),
}

/// The place of an operand; `None` is the accumulator.
pub(super) type Any = Option<Place>;

/// The data on which the steps work.
#[derive(Clone, Copy, Debug)]
struct Machine<L: Vector, const R: usize> {
    slots: *mut [L; R],
    coefficients: [*const L::Element; R],
    constants: *const f64,
}

impl<L: Vector, const R: usize> Machine<L, R> {
    /// # Safety
    /// The slot must have been stored to.
    #[inline(always)]
    unsafe fn slot(&self, slot: u8) -> [L; R] {
        // SAFETY: the caller guarantees that the slot exists and has been stored to.
        unsafe { *self.slots.add(slot as usize) }
    }

    /// # Safety
    /// Coefficient `n` must exist.
    #[inline(always)]
    unsafe fn coefficient(&self, n: u8) -> [L; R] {
        let mut values = [L::splat(0.0); R];
        for (r, value) in values.iter_mut().enumerate() {
            // SAFETY: the caller guarantees that the coefficient exists, and `Code::run` requires
            // that all coefficients are aligned and valid for reads.
            *value = unsafe { L::load(self.coefficients[r].add(n as usize * L::WIDTH)) };
        }
        values
    }

    /// # Safety
    /// Constant `k` must exist.
    #[inline(always)]
    unsafe fn constant(&self, k: u8) -> [L; R] {
        // SAFETY: the caller guarantees that the constant exists.
        [L::splat(unsafe { *self.constants.add(k as usize) }); R]
    }

    /// # Safety
    /// The slot, coefficient or constant must exist, and a slot must have been stored to.
    #[inline(always)]
    unsafe fn any(&self, place: Any, accumulator: [L; R]) -> [L; R] {
        // SAFETY: the caller guarantees that the place exists.
        unsafe {
            match place {
                None => accumulator,
                Some(Place::Slot(slot)) => self.slot(slot),
                Some(Place::Coefficient(n)) => self.coefficient(n),
                Some(Place::Constant(k)) => self.constant(k),
            }
        }
    }
}

/// Defines the steps, grouped by the number of their operands besides the accumulator `a`. A step
/// with operands has one variant for each kind: S for a slot, C for a coefficient, K for a
/// constant. Joined steps combine several others.
macro_rules! steps {
    (
        none { $($none:ident($a0:ident) = $f0:expr;)* }
        one { $($one:ident($a1:ident, $x1:ident): $s:ident $c:ident $k:ident = $f1:expr;)* }
        two { $($two:ident($a2:ident, $x2:ident, $y2:ident):
            $ss:ident $sc:ident $sk:ident $cc:ident $ck:ident = $f2:expr;)* }
        joined { $($joined:ident($a3:ident $(, $x3:ident: $p3:ident)*) = $f3:expr;)* }
    ) => {
        /// A step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Step {
            /// Stores the accumulator to a slot.
            Store(u8),
            /// Selects the third value if the first is less than the second, and the fourth
            /// otherwise.
            Less([Any; 4]),
            /// Selects the third value if the first is less than or equal to the second, and the
            /// fourth otherwise.
            AtMost([Any; 4]),
            /// Selects the third value if the first and the second are equal, and the fourth
            /// otherwise.
            Equal([Any; 4]),
            /// The remainder of the first value by the second.
            Rem([Any; 2]),
            /// The result of a function of the platform's library.
            Call(Unary),
            $($none,)*
            $($s(u8), $c(u8), $k(u8),)*
            $($ss(u8, u8), $sc(u8, u8), $sk(u8, u8), $cc(u8, u8), $ck(u8, u8),)*
            $($joined { $($x3: u8,)* },)*
        }

        /// An operation with one operand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum One { $($one,)* }

        impl One {
            /// Returns the step with this operand.
            pub(super) fn step(self, x: Place) -> Step {
                match (self, x) { $(
                    (One::$one, Place::Slot(x)) => Step::$s(x),
                    (One::$one, Place::Coefficient(x)) => Step::$c(x),
                    (One::$one, Place::Constant(x)) => Step::$k(x),
                )* }
            }
        }

        /// An operation with two operands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Two { $($two,)* }

        impl Two {
            /// Returns the step with these operands, if there is one.
            pub(super) fn step(self, x: Place, y: Place) -> Option<Step> {
                match (self, x, y) {
                    $(
                        (Two::$two, Place::Slot(x), Place::Slot(y)) => Some(Step::$ss(x, y)),
                        (Two::$two, Place::Slot(x), Place::Coefficient(y)) => Some(Step::$sc(x, y)),
                        (Two::$two, Place::Slot(x), Place::Constant(y)) => Some(Step::$sk(x, y)),
                        (Two::$two, Place::Coefficient(x), Place::Coefficient(y)) => Some(Step::$cc(x, y)),
                        (Two::$two, Place::Coefficient(x), Place::Constant(y)) => Some(Step::$ck(x, y)),
                    )*
                    _ => None,
                }
            }
        }

        impl Step {
            /// Returns the places of its operands.
            pub(super) fn operands(self) -> [Any; 4] {
                use Place::{Coefficient, Constant, Slot};
                match self {
                    $(Step::$joined { $($x3,)* } => four(&[$(place!($p3, $x3),)*]),)*
                    Step::Less(operands) | Step::AtMost(operands) | Step::Equal(operands) => operands,
                    Step::Rem([x, y]) => [x, y, None, None],
                    Step::Store(_) | Step::Call(_) $(| Step::$none)* => [None; 4],
                    $(
                        Step::$s(x) => [Some(Slot(x)), None, None, None],
                        Step::$c(x) => [Some(Coefficient(x)), None, None, None],
                        Step::$k(x) => [Some(Constant(x)), None, None, None],
                    )*
                    $(
                        Step::$ss(x, y) => [Some(Slot(x)), Some(Slot(y)), None, None],
                        Step::$sc(x, y) => [Some(Slot(x)), Some(Coefficient(y)), None, None],
                        Step::$sk(x, y) => [Some(Slot(x)), Some(Constant(y)), None, None],
                        Step::$cc(x, y) => [Some(Coefficient(x)), Some(Coefficient(y)), None, None],
                        Step::$ck(x, y) => [Some(Coefficient(x)), Some(Constant(y)), None, None],
                    )*
                }
            }
        }

        /// Executes the steps and stores the final accumulator to slot 0.
        ///
        /// # Safety
        /// * The steps must be those of a [`Code`]. The pointers of the machine must lead to its
        ///   constants and to its number of coefficients.
        /// * The slots of the neighbours that the code reads must have been stored to, and all
        ///   slots must be valid for writes.
        #[inline(always)]
        unsafe fn execute<L: Vector, const R: usize>(steps: &[Step], machine: &Machine<L, R>) {
            // The compiler keeps a local copy, which no other code can access, in registers.
            let machine = &{ *machine };
            let mut a = [L::splat(0.0); R];
            for step in steps {
                // SAFETY: all operands of the steps of a `Code` exist, and slots are stored to
                // before they are read, see `Code::new`. `R` vectors consist of `R * WIDTH` values.
                unsafe {
                    match *step {
                        Step::Store(slot) => machine.slots.add(slot as usize).write(a),
                        Step::Less(operands) => {
                            let [p, q, x, y] = every(machine, operands, a);
                            for r in 0..R {
                                a[r] = L::choose(p[r].less(q[r]), x[r], y[r]);
                            }
                        }
                        Step::AtMost(operands) => {
                            let [p, q, x, y] = every(machine, operands, a);
                            for r in 0..R {
                                let otherwise = L::choose(p[r].equal(q[r]), x[r], y[r]);
                                a[r] = L::choose(p[r].less(q[r]), x[r], otherwise);
                            }
                        }
                        Step::Equal(operands) => {
                            let [p, q, x, y] = every(machine, operands, a);
                            for r in 0..R {
                                a[r] = L::choose(p[r].equal(q[r]), x[r], y[r]);
                            }
                        }
                        // No vector is in a register while a function is called, so that the other
                        // steps have all of them.
                        Step::Rem([x, y]) => {
                            let (mut all, by) = (machine.any(x, a), machine.any(y, a));
                            remainders(
                                (&raw mut all).cast::<L::Element>(),
                                (&raw const by).cast(),
                                R * L::WIDTH,
                            );
                            a = all;
                        }
                        Step::Call(op) => {
                            let mut all = a;
                            functions((&raw mut all).cast::<L::Element>(), R * L::WIDTH, op);
                            a = all;
                        }
                        $(Step::$joined { $($x3,)* } => {
                            $(let $x3 = machine.$p3($x3);)*
                            for r in 0..R {
                                #[allow(unused_variables)]
                                let $a3 = a[r];
                                $(let $x3 = $x3[r];)*
                                a[r] = $f3;
                            }
                        })*
                        $(Step::$none => {
                            for r in 0..R {
                                let $a0 = a[r];
                                a[r] = $f0;
                            }
                        })*
                        $(
                            Step::$s(x) => one!(R, a, machine.slot(x), |$a1, $x1| $f1),
                            Step::$c(x) => one!(R, a, machine.coefficient(x), |$a1, $x1| $f1),
                            Step::$k(x) => one!(R, a, machine.constant(x), |$a1, $x1| $f1),
                        )*
                        $(
                            Step::$ss(x, y) => two!(R, a, machine.slot(x), machine.slot(y), |$a2, $x2, $y2| $f2),
                            Step::$sc(x, y) => two!(R, a, machine.slot(x), machine.coefficient(y), |$a2, $x2, $y2| $f2),
                            Step::$sk(x, y) => two!(R, a, machine.slot(x), machine.constant(y), |$a2, $x2, $y2| $f2),
                            Step::$cc(x, y) => {
                                two!(R, a, machine.coefficient(x), machine.coefficient(y), |$a2, $x2, $y2| $f2);
                            }
                            Step::$ck(x, y) => {
                                two!(R, a, machine.coefficient(x), machine.constant(y), |$a2, $x2, $y2| $f2);
                            }
                        )*
                    }
                }
            }
            // SAFETY: the caller guarantees that all slots are valid for writes. (The accumulator
            // is not returned, because it would then live in the memory of the caller.)
            unsafe { machine.slots.write(a) };
        }
    };
}

/// A step with one operand. It is not a closure, which would not be compiled for the vectors of the
/// machine.
macro_rules! one {
    ($r:ident, $acc:ident, $x:expr, |$a:ident, $v:ident| $f:expr) => {{
        let x = $x;
        for r in 0..$r {
            #[allow(unused_variables)]
            let ($a, $v) = ($acc[r], x[r]);
            $acc[r] = $f;
        }
    }};
}

/// A step with two operands.
macro_rules! two {
    ($r:ident, $acc:ident, $x:expr, $y:expr, |$a:ident, $v:ident, $w:ident| $f:expr) => {{
        let (x, y) = ($x, $y);
        for r in 0..$r {
            #[allow(unused_variables)]
            let ($a, $v, $w) = ($acc[r], x[r], y[r]);
            $acc[r] = $f;
        }
    }};
}

/// The place of an operand of a joined step.
macro_rules! place {
    (slot, $x:ident) => {
        Slot($x)
    };
    (coefficient, $x:ident) => {
        Coefficient($x)
    };
    (constant, $x:ident) => {
        Constant($x)
    };
}

/// Returns the greatest whole numbers that are at most the values.
#[inline(always)]
fn floor<L: Vector>(a: L) -> L {
    let mut floors = a;
    let values = (&raw mut floors).cast::<L::Element>();
    for i in 0..L::WIDTH {
        // SAFETY: a vector consists of `WIDTH` values.
        unsafe { values.add(i).write(scalar::floor(values.add(i).read())) };
    }
    floors
}

/// Replaces `n` values by the results of a function.
///
/// # Safety
/// The values must be valid for reads and writes.
#[inline(never)]
unsafe fn functions<E: Element>(values: *mut E, n: usize, op: Unary) {
    for i in 0..n {
        // SAFETY: the caller guarantees the values.
        unsafe { values.add(i).write(scalar::function(op, values.add(i).read())) };
    }
}

/// Replaces `n` values by their remainders.
///
/// # Safety
/// The values must be valid for reads and writes, and the divisors for reads.
#[inline(never)]
unsafe fn remainders<E: Element>(values: *mut E, by: *const E, n: usize) {
    for i in 0..n {
        // SAFETY: the caller guarantees the values.
        unsafe { values.add(i).write(scalar::remainder(values.add(i).read(), by.add(i).read())) };
    }
}

fn four(places: &[Place]) -> [Any; 4] {
    std::array::from_fn(|i| places.get(i).copied())
}

/// Returns the values at four places.
///
/// # Safety
/// All the places must exist, and slots must have been stored to.
#[inline(always)]
unsafe fn every<L: Vector, const R: usize>(
    machine: &Machine<L, R>,
    [p, q, x, y]: [Any; 4],
    a: [L; R],
) -> [[L; R]; 4] {
    // SAFETY: the caller guarantees that the places exist.
    unsafe { [machine.any(p, a), machine.any(q, a), machine.any(x, a), machine.any(y, a)] }
}

steps! {
    none {
        Neg(a) = -a;
        Abs(a) = a.abs();
        Sqrt(a) = a.sqrt();
        Floor(a) = floor(a);
    }
    one {
        Load(a, x): LoadS LoadC LoadK = x;
        Add(a, x): AddS AddC AddK = a + x;
        Sub(a, x): SubS SubC SubK = a - x;
        SubFrom(a, x): SubFromS SubFromC SubFromK = x - a;
        Mul(a, x): MulS MulC MulK = a * x;
        Div(a, x): DivS DivC DivK = a / x;
        DivInto(a, x): DivIntoS DivIntoC DivIntoK = x / a;
        Min(a, x): MinS MinC MinK = a.min(x);
        MinOf(a, x): MinOfS MinOfC MinOfK = x.min(a);
        Max(a, x): MaxS MaxC MaxK = a.max(x);
        MaxOf(a, x): MaxOfS MaxOfC MaxOfK = x.max(a);
    }
    two {
        Sum(a, x, y): SumSS SumSC SumSK SumCC SumCK = x + y;
        Difference(a, x, y): DifferenceSS DifferenceSC DifferenceSK DifferenceCC DifferenceCK = x - y;
        Product(a, x, y): ProductSS ProductSC ProductSK ProductCC ProductCK = x * y;
        AddProduct(a, x, y): AddProductSS AddProductSC AddProductSK AddProductCC AddProductCK = a + x * y;
        LessProduct(a, x, y): LessProductSS LessProductSC LessProductSK LessProductCC LessProductCK = a - x * y;
        ProductLess(a, x, y): ProductLessSS ProductLessSC ProductLessSK ProductLessCC ProductLessCK = x * y - a;
        Scaled(a, x, y): ScaledSS ScaledSC ScaledSK ScaledCC ScaledCK = x + y * a;
        ScaledLess(a, x, y): ScaledLessSS ScaledLessSC ScaledLessSK ScaledLessCC ScaledLessCK = x - y * a;
    }
    joined {
        Sum3(a, x: slot, y: slot, z: slot) = x + y + z;
        Sum4(a, x: slot, y: slot, z: slot, w: slot) = x + y + z + w;
        Add2(a, x: slot, y: slot) = a + x + y;
        Products(a, x: slot, y: coefficient, z: slot, w: coefficient) = x * y + z * w;
        AddProducts(a, x: slot, y: coefficient, z: slot, w: coefficient) = a + x * y + z * w;
        Relax(a, x: slot, k: constant) = x + k * (a - x);
    }
}

impl Step {
    /// Returns one step for `self` and `next`, for combinations that are frequent in stencils.
    pub(super) fn join(self, next: Step) -> Option<Step> {
        match (self, next) {
            (Step::SumSS(x, y), Step::AddS(z)) => Some(Step::Sum3 { x, y, z }),
            (Step::Sum3 { x, y, z }, Step::AddS(w)) => Some(Step::Sum4 { x, y, z, w }),
            (Step::AddS(x), Step::AddS(y)) => Some(Step::Add2 { x, y }),
            (Step::ProductSC(x, y), Step::AddProductSC(z, w)) => {
                Some(Step::Products { x, y, z, w })
            }
            (Step::AddProductSC(x, y), Step::AddProductSC(z, w)) => {
                Some(Step::AddProducts { x, y, z, w })
            }
            (Step::SubS(x), Step::ScaledSK(y, k)) if x == y => Some(Step::Relax { x, k }),
            _ => None,
        }
    }
}

/// The compiled steps. All operands are known to exist.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    steps: Box<[Step]>,
    constants: Box<[f64]>,
    coefficients: usize,
    /// The neighbours that the steps read.
    stencil: Stencil,
}

impl Code {
    /// Creates a code of `steps` for `coefficients` coefficients.
    ///
    /// # Panics
    /// If a step uses a slot that no earlier step has stored to, or a coefficient or constant that
    /// does not exist. The compiler emits no such steps.
    pub(super) fn new(steps: Vec<Step>, constants: Vec<f64>, coefficients: usize) -> Self {
        let mut stored = [false; SLOTS];
        stored[..NEIGHBOURS].fill(true);
        let mut stencil = Stencil::of(&[]);
        for step in &steps {
            for place in step.operands().into_iter().flatten() {
                let there = match place {
                    Place::Slot(slot) => stored.get(slot as usize).is_some_and(|stored| *stored),
                    Place::Coefficient(n) => (n as usize) < coefficients,
                    Place::Constant(k) => (k as usize) < constants.len(),
                };
                assert!(there, "{step:?} has an operand that does not exist");
                if let Place::Slot(slot @ 1..9) = place {
                    stencil = stencil.union(Stencil::of(&[Neighbour::ALL[slot as usize - 1]]));
                }
            }
            if let Step::Store(slot) = step {
                assert!(
                    (NEIGHBOURS..SLOTS).contains(&(*slot as usize)),
                    "there is no free slot {slot}"
                );
                stored[*slot as usize] = true;
            }
        }
        Code { steps: steps.into(), constants: constants.into(), coefficients, stencil }
    }

    pub(super) fn coefficients(&self) -> usize {
        self.coefficients
    }

    /// The neighbours that the steps read.
    pub(super) fn stencil(&self) -> Stencil {
        self.stencil
    }

    /// Returns the number of slots, from the first on, that hold the values read: 5 (the point and
    /// its sides), 7 or 9.
    pub(crate) fn neighbours(&self) -> usize {
        match (self.stencil.corners(), self.stencil.diagonal()) {
            (true, _) => 9,
            (false, true) => 7,
            (false, false) => 5,
        }
    }

    #[cfg(test)]
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the new values.
    ///
    /// # Safety
    /// * `slots` must be valid for reads and writes of [`SLOTS`] values, of which the first
    ///   [`neighbours`](Self::neighbours) must have been stored to.
    /// * Each `coefficients[r]` must be aligned and valid for reads of one vector per coefficient.
    /// * The processor must have the instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn run<L: Vector, const R: usize>(
        &self,
        slots: *mut [L; R],
        coefficients: &[*const L::Element; R],
    ) -> [L; R] {
        let machine =
            Machine { slots, coefficients: *coefficients, constants: self.constants.as_ptr() };
        // SAFETY: the caller guarantees the slots, the coefficients and the instructions of `L`,
        // and a vector of 64 or 32 bytes implies AVX-512F or AVX2.
        unsafe {
            // As the size is a constant expression, only the branch that is taken is compiled.
            match const { size_of::<L>() } {
                #[cfg(target_arch = "x86_64")]
                64 => avx512(&self.steps, &machine),
                #[cfg(target_arch = "x86_64")]
                32 => avx2(&self.steps, &machine),
                _ => others(&self.steps, &machine),
            }
            slots.read()
        }
    }
}

/// # Safety
/// The conditions of [`execute`] must hold, and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
unsafe fn avx2<L: Vector, const R: usize>(steps: &[Step], machine: &Machine<L, R>) {
    // SAFETY: the conditions are those of this function, which the caller guarantees.
    unsafe { execute(steps, machine) }
}

/// # Safety
/// The conditions of [`execute`] must hold, and the processor must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline(never)]
unsafe fn avx512<L: Vector, const R: usize>(steps: &[Step], machine: &Machine<L, R>) {
    // SAFETY: the conditions are those of this function, which the caller guarantees.
    unsafe { execute(steps, machine) }
}

/// # Safety
/// The conditions of [`execute`] must hold, and every processor of the architecture must have the
/// instructions of `L`.
#[inline(never)]
unsafe fn others<L: Vector, const R: usize>(steps: &[Step], machine: &Machine<L, R>) {
    // SAFETY: the conditions are those of this function, which the caller guarantees.
    unsafe { execute(steps, machine) }
}
