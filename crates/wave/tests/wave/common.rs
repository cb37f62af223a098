//! Matrices of every kind, in memory and on every kind of file, and the results of the plain double
//! loop for them. The tests of `syncline-blocks` include this file.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use syncline_store::{ElementType, Layout, Matrix, NewFile, Shape, convert, placement::Rect};
use syncline_wave::{PointKernel, lanes::Lanes, reference::plain_sweep};

use crate::Real;

/// Returns pseudo-random numbers between 0 and `scale`.
pub(crate) fn numbers<T: Real>(seed: u64, count: usize, scale: f64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::from_f64((state >> 11) as f64 * scale / (1_u64 << 53) as f64)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Creates a matrix of zeros in memory, or on an unnamed file in `folder`.
pub(crate) fn blank<T: Real>(folder: Option<&Path>, shape: Shape, layout: Layout) -> Matrix<T> {
    match folder {
        None => Matrix::zeros(shape, layout).unwrap(),
        Some(folder) => nameless(folder, false, shape, layout),
    }
}

fn nameless<T: Real>(folder: &Path, npy: bool, shape: Shape, layout: Layout) -> Matrix<T> {
    let bytes = Matrix::<T>::file_bytes(npy, shape, layout).unwrap();
    let file = NewFile::create(&folder.join("matrix"), bytes).unwrap();
    Matrix::create(&file, npy, shape, layout).unwrap()
}

/// Creates a matrix with these values, in memory or on file.
pub(crate) fn filled<T: Real>(
    folder: Option<&Path>,
    shape: Shape,
    layout: Layout,
    values: &[T],
) -> Matrix<T> {
    let plain = Matrix::from_vec(shape, values.to_vec()).unwrap();
    let mut matrix = blank(folder, shape, layout);
    convert(&plain, &mut matrix, 1 << 20).unwrap();
    matrix
}

/// The place of a row-major matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In memory.
    Memory,
    /// On a file of the values only.
    Raw,
    /// On a `.npy` file whose data begin at this multiple of 16 bytes; for a result, at the default
    /// offset.
    Npy(usize),
}

impl Place {
    pub(crate) fn any() -> impl Strategy<Value = Place> {
        let header = prop_oneof![Just(8), 5..12_usize, Just(33), Just(256), Just(300)];
        prop_oneof![2 => Just(Place::Memory), 1 => Just(Place::Raw), 2 => header.prop_map(Place::Npy)]
    }

    /// Creates an input at this place; on file, with this name.
    pub(crate) fn input<T: Real>(
        self,
        folder: &Path,
        name: &str,
        shape: Shape,
        values: &[T],
    ) -> Matrix<T> {
        let path = folder.join(name);
        match self {
            Place::Memory => Matrix::from_vec(shape, values.to_vec()).unwrap(),
            Place::Raw => {
                std::fs::write(&path, bytes(values)).unwrap();
                Matrix::open_raw(&path, shape, Layout::RowMajor).unwrap()
            }
            Place::Npy(sixteens) => {
                write_npy(&path, sixteens * 16, shape, values);
                Matrix::open(&path).unwrap()
            }
        }
    }

    /// Creates a result of zeros at this place.
    pub(crate) fn result<T: Real>(self, folder: &Path, shape: Shape) -> Matrix<T> {
        match self {
            Place::Memory => Matrix::zeros(shape, Layout::RowMajor).unwrap(),
            Place::Raw | Place::Npy(_) => {
                nameless(folder, self != Place::Raw, shape, Layout::RowMajor)
            }
        }
    }
}

pub(crate) fn bytes<T: Real>(values: &[T]) -> Vec<u8> {
    let bits = values.iter().flat_map(|v| v.bits().to_le_bytes().into_iter().take(T::BYTES));
    bits.collect()
}

/// Writes a `.npy` file, version 1.0, whose data begin at byte `start`.
fn write_npy<T: Real>(path: &Path, start: usize, shape: Shape, values: &[T]) {
    let descr = if T::BYTES == 4 { ElementType::Float32 } else { ElementType::Float64 }.descr();
    let Shape { rows, cols } = shape;
    let dict = format!("{{'descr':'{descr}','fortran_order':False,'shape':({rows},{cols})}}");
    let room = start - 11;
    assert!(dict.len() <= room, "no room for {dict}");
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    file.write_all(&(start as u16 - 10).to_le_bytes()).unwrap();
    file.write_all(format!("{dict:room$}\n").as_bytes()).unwrap();
    file.write_all(&bytes(values)).unwrap();
}

/// Returns all values of a matrix, row by row.
pub(crate) fn values<T: Real>(matrix: &Matrix<T>) -> Vec<T> {
    let mut values = vec![T::default(); matrix.shape().elements()];
    matrix.read_rows(0..matrix.shape().rows, &mut values).unwrap();
    values
}

/// Returns the bits of the values; all NaNs map to the same bits.
pub(crate) fn bits<T: Real>(values: &[T]) -> Vec<u64> {
    values.iter().map(|v| if v.is_nan() { f64::NAN.to_bits() } else { v.bits() }).collect()
}

/// Compares values and reports the first difference.
pub(crate) fn same<T: Real>(found: &[T], expected: &[T], cols: usize) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), expected.len());
    let differs = |(a, b): (&T, &T)| a.bits() != b.bits() && !(a.is_nan() && b.is_nan());
    let at = found.iter().zip(expected).position(differs);
    let wrong = found.iter().zip(expected).filter(|&pair| differs(pair)).count();
    if let Some(at) = at {
        let (row, col, found, expected) = (at / cols, at % cols, found[at], expected[at]);
        let text =
            format!("row {row}, column {col}: {found:?} is not {expected:?}, and {wrong} in all");
        return Err(TestCaseError::fail(text));
    }
    Ok(())
}

/// A field and its coefficients.
#[derive(Clone, Debug)]
pub(crate) struct Data<T, const N: usize> {
    pub(crate) shape: Shape,
    pub(crate) field: Vec<T>,
    pub(crate) coefficients: [Vec<T>; N],
}

impl<T: Real, const N: usize> Data<T, N> {
    pub(crate) fn new(seed: u64, shape: Shape) -> Self {
        let n = shape.elements();
        Data {
            shape,
            field: numbers(seed, n, 1.0),
            coefficients: std::array::from_fn(|c| {
                numbers(seed.wrapping_add(1 + c as u64), n, 0.25)
            }),
        }
    }

    /// Replaces some values of every array by infinities and NaNs.
    pub(crate) fn with_odd_values(mut self, seed: u64) -> Self {
        let n = self.shape.elements();
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0].map(T::from_f64);
        let each = std::iter::once(&mut self.field).chain(&mut self.coefficients);
        for (a, values) in each.enumerate() {
            for (i, place) in numbers::<f64>(seed ^ a as u64, 4, n as f64).into_iter().enumerate() {
                values[place as usize] = odd[i];
            }
        }
        self
    }

    /// Returns the field after iterations of the plain double loop.
    pub(crate) fn plain<K: PointKernel<N>>(&self, kernel: &K, iterations: u64) -> Vec<T> {
        let mut field = self.field.clone();
        (0..iterations).for_each(|_| self.sweep(kernel, &mut field));
        field
    }

    /// Runs one iteration of the plain double loop.
    fn sweep<K: PointKernel<N>>(&self, kernel: &K, field: &mut [T]) {
        let c = std::array::from_fn(|n| &self.coefficients[n][..]);
        plain_sweep(kernel, field, c, self.shape.rows, self.shape.cols);
    }

    /// Returns the greatest change of a point in each of the iterations: 0 of a point that is equal
    /// or NaN before and after, NaN if any point is NaN once.
    pub(crate) fn residuals<K: PointKernel<N>>(&self, kernel: &K, iterations: u64) -> Vec<f64> {
        let cols = self.shape.cols;
        let mut field = self.field.clone();
        let mut residual = || {
            let before = field.clone();
            self.sweep(kernel, &mut field);
            let mut greatest = 0.0_f64;
            let Rect { row, col, rows, cols: wide } = K::STENCIL.updated(self.shape);
            for i in (row..row + rows).flat_map(|j| (col..col + wide).map(move |k| j * cols + k)) {
                let (old, new) = (before[i], field[i]);
                let stays = old == new || old.is_nan() && new.is_nan();
                let change = if stays { 0.0 } else { (new - old).abs().to_f64() };
                if change.is_nan() || change > greatest {
                    greatest = change;
                }
                if greatest.is_nan() {
                    break;
                }
            }
            greatest
        };
        (0..iterations).map(|_| residual()).collect()
    }

    /// Returns the data as matrices; coefficients are never framed.
    pub(crate) fn matrices(
        &self,
        folder: Option<&Path>,
        layout: Layout,
    ) -> (Arc<Matrix<T>>, [Arc<Matrix<T>>; N]) {
        let field = filled(folder, self.shape, layout, &self.field);
        let coefficient = |n: usize| {
            let values: &[T] = &self.coefficients[n];
            Arc::new(filled(folder, self.shape, layout.without_frame(), values))
        };
        (Arc::new(field), std::array::from_fn(coefficient))
    }

    /// Returns the data as row-major matrices: the field, and each coefficient in turn, at the next
    /// of these places.
    pub(crate) fn at(
        &self,
        places: &[Place],
        folder: &Path,
    ) -> (Arc<Matrix<T>>, [Arc<Matrix<T>>; N]) {
        let place = |n: usize| places[n % places.len()];
        let field = place(0).input(folder, "field", self.shape, &self.field);
        let coefficient = |n: usize| {
            Arc::new(place(n + 1).input(
                folder,
                &format!("c{n}"),
                self.shape,
                &self.coefficients[n],
            ))
        };
        (Arc::new(field), std::array::from_fn(coefficient))
    }
}

/// Generates lengths around every boundary of vectors, strips, tiles and bands.
pub(crate) fn side() -> impl Strategy<Value = usize> {
    let unit = prop::sample::select(vec![4_usize, 8, 16, 32, 64, 128]);
    let near = (unit, 1..10_usize, 0..5_usize);
    prop_oneof![1..301_usize, near.prop_map(|(unit, count, off)| (unit * count + off).min(301) - 1)]
}

/// Generates a vector type that this machine supports.
pub(crate) fn lanes() -> impl Strategy<Value = Lanes> {
    prop::sample::select(Lanes::available().collect::<Vec<_>>())
}
