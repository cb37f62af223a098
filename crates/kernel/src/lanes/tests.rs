//! Every operation on every kind of lane gives the result of the operation on plain numbers.

use super::{Lane, Lanes, Vector};
use syncline_store::Element;

/// Numbers of all kinds, more than the widest vector has values.
const VALUES: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e30,
    -3e-30,
    0.1,
    7.25,
    -7.25,
    2.0,
    1e-310,
    -1e-42,
    9.0,
    0.175,
    1e38,
    -1e-38,
    3.0,
    -0.25,
    5.5,
    1e5,
    -4.0,
];

#[repr(align(64))]
struct Row<E>([E; 16]);

fn row<V: Vector>(first: usize) -> Row<V::Element> {
    Row(std::array::from_fn(|i| V::Element::from_f64(VALUES[(first + i) % VALUES.len()])))
}

/// Returns the values of a vector.
fn values<V: Vector>(vector: V) -> Vec<V::Element> {
    let mut row = row::<V>(0);
    // SAFETY: the row is aligned to 64 bytes and as long as the widest vector.
    unsafe { vector.store(row.0.as_mut_ptr()) };
    row.0[..V::WIDTH].to_vec()
}

fn vector<V: Vector>(first: usize) -> V {
    // SAFETY: the row is aligned to 64 bytes and as long as the widest vector.
    unsafe { V::load(row::<V>(first).0.as_ptr()) }
}

fn same<E: Element>(left: E, right: E, what: &str) {
    let equal = left.bits() == right.bits() || (left.is_nan() && right.is_nan());
    assert!(equal, "{what}: {left:?} and {right:?}");
}

/// Compares every operation on `V` with the operation on a plain number.
#[inline(always)]
fn agree<V: Vector>()
where
    V::Element: Vector<Element = V::Element>,
{
    type Two<L> = fn(L, L) -> L;
    fn binary<L: Lane>() -> [(&'static str, Two<L>); 10] {
        [
            ("+", |a, b| a + b),
            ("-", |a, b| a - b),
            ("*", |a, b| a * b),
            ("/", |a, b| a / b),
            ("min", Lane::min),
            ("max", Lane::max),
            ("less", |a, b| L::choose(a.less(b), a, L::splat(0.3))),
            ("equal", |a, b| L::choose(a.equal(b), L::splat(2.0), b)),
            ("abs neg", |a, b| -(a.abs()) + b),
            ("sqrt", |a, b| a.sqrt() * b),
        ]
    }
    for first in 0..VALUES.len() {
        for second in 0..VALUES.len() {
            let (a, b) = (vector::<V>(first), vector::<V>(second));
            let (x, y) = (values(a), values(b));
            for ((name, wide), (_, plain)) in binary::<V>().into_iter().zip(binary::<V::Element>())
            {
                for (i, value) in values(wide(a, b)).into_iter().enumerate() {
                    same(value, plain(x[i], y[i]), &format!("{:?} {name} {:?}", x[i], y[i]));
                }
            }
            let greater = values(a.greater(b));
            (0..V::WIDTH).for_each(|i| same(greater[i], x[i].greater(y[i]), "greater"));
            let (last, next) = (values(a.from_above(b)), values(a.from_below(b)));
            for i in 0..V::WIDTH {
                same(last[i], if i == 0 { y[V::WIDTH - 1] } else { x[i - 1] }, "from above");
                same(next[i], if i + 1 < V::WIDTH { x[i + 1] } else { y[0] }, "from below");
            }
        }
        let a = vector::<V>(first);
        let greatest = values(a).into_iter().reduce(Vector::greater).map(Element::to_f64);
        same(a.greatest(), greatest.unwrap(), "greatest");
    }
    let (yes, no) = (V::splat(1.0), V::splat(2.0));
    for bits in 0..1_u32 << V::WIDTH {
        for (i, value) in values(V::choose_bits(bits, yes, no)).into_iter().enumerate() {
            let expected = if bits >> i & 1 == 1 { 1.0 } else { 2.0 };
            same(value, V::Element::from_f64(expected), "choose bits");
        }
    }
    same(values(V::splat(0.1))[V::WIDTH - 1], V::Element::from_f64(0.1), "splat");
    transposes::<V>();
}

#[inline(always)]
fn transposes<V: Vector>() {
    let w = V::WIDTH;
    let (pitch, stride) = (w + 3, 2 * w);
    let from: Vec<V::Element> = (0..w * pitch).map(|i| V::Element::from_f64(i as f64)).collect();
    let mut room = vec![Row([V::Element::default(); 16]); 2 * w * w / 16 + 2];
    // Not aligned.
    let to = room.as_mut_ptr().cast::<V::Element>().wrapping_add(1);
    // SAFETY: `from` has `w` rows at this pitch, and the room has `w` vectors at this stride.
    unsafe { V::transpose_in(from.as_ptr(), pitch as isize, to, stride) };
    for i in 0..w {
        for j in 0..w {
            // SAFETY: the index is within the room.
            let value = unsafe { *to.add(j * stride + i) };
            same(value, from[i * pitch + j], "transposed in");
        }
    }
    let mut back = vec![V::Element::from_f64(-1.0); w * pitch];
    // SAFETY: as above.
    unsafe { V::transpose_out(to, stride, back.as_mut_ptr(), pitch as isize) };
    for i in 0..w {
        for j in 0..pitch {
            let expected = if j < w { from[i * pitch + j] } else { V::Element::from_f64(-1.0) };
            same(back[i * pitch + j], expected, "transposed out");
        }
    }
}

impl<E: Copy> Clone for Row<E> {
    fn clone(&self) -> Self {
        Row(self.0)
    }
}

#[test]
fn scalar() {
    agree::<f64>();
    agree::<f32>();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx2() {
    #[target_feature(enable = "avx2")]
    fn both() {
        agree::<super::avx2::F64x4>();
        agree::<super::avx2::F32x8>();
    }
    if !Lanes::Avx2.is_available() {
        return println!("skipped: this processor has no AVX2");
    }
    // SAFETY: the processor has AVX2.
    unsafe { both() }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx512() {
    #[target_feature(enable = "avx512f")]
    fn both() {
        agree::<super::avx512::F64x8>();
        agree::<super::avx512::F32x16>();
    }
    if !Lanes::Avx512.is_available() {
        return println!("skipped: this processor has no AVX-512");
    }
    // SAFETY: the processor has AVX-512.
    unsafe { both() }
}

#[cfg(target_arch = "aarch64")]
#[test]
fn neon() {
    agree::<super::neon::F64x2>();
    agree::<super::neon::F32x4>();
}

#[test]
fn the_narrowest_is_always_there() {
    assert_eq!(Lanes::available().next(), Some(Lanes::Scalar));
    assert!(Lanes::best().is_available());
    assert_eq!((Lanes::Avx512.width(8), Lanes::Avx2.width(4), Lanes::Scalar.width(4)), (8, 8, 1));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn halved_vectors_are_not_the_best() {
    // The values of the leaf on Zen 4 and on Zen 5 for servers, and without such a leaf.
    assert_eq!([0b0110, 0b1110, 0].map(super::are_256), [true, false, false]);
    assert!(!super::halves_512() || Lanes::best() != Lanes::Avx512);
}
