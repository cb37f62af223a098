//! Checks every scheme against the plain double loop, and the errors of wrong jobs.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use syncline_blocks::Error;
use syncline_lab::schemes::{Arrays, Exchange, Job, Scheme};
use syncline_store::{Block, Element, Layout, Matrix, NewFile, Shape, convert};
use syncline_testkit::property;
use syncline_wave::{Error as WaveError, kernels::Lk23, reference::plain_sweep};

const NAMES: [&str; 6] = ["za", "zr", "zb", "zu", "zv", "zz"];

type Any<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns distinct numbers in [0, scale).
fn numbers(seed: u64, scale: f64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 * f64::powi(2.0, -53) * scale
    };
    (0..count).map(|_| next()).collect()
}

/// The matrices, and the field after a number of iterations.
struct Case {
    shape: Shape,
    values: Vec<Vec<f64>>,
    expected: Vec<f64>,
}

impl Case {
    fn new(shape: Shape, iterations: u64, seed: u64) -> Self {
        let scale = |n| if n == 0 { 1.0 } else { 0.25 };
        let values: Vec<Vec<f64>> =
            (0..6).map(|n| numbers(seed ^ n as u64, scale(n), shape.elements())).collect();
        let mut expected = values[0].clone();
        let coefficients = std::array::from_fn(|n| &values[n + 1][..]);
        for _ in 0..iterations {
            plain_sweep(&Lk23, &mut expected, coefficients, shape.rows, shape.cols);
        }
        Case { shape, values, expected }
    }

    /// Returns a matrix of the case in a layout, in memory or on file.
    fn matrix(&self, n: usize, layout: Layout, folder: Option<&Path>) -> Any<Arc<Matrix>> {
        let values = Matrix::from_vec(self.shape, self.values[n].clone())?;
        let Some(folder) = folder else {
            let mut matrix = Matrix::zeros(self.shape, layout)?;
            convert(&values, &mut matrix, 1 << 20)?;
            return Ok(Arc::new(matrix));
        };
        let path = folder.join(format!("{} {layout}", NAMES[n]));
        let new = NewFile::create(&path, Matrix::<f64>::file_bytes(false, self.shape, layout)?)?;
        convert(&values, &mut Matrix::create(&new, false, self.shape, layout)?, 1 << 20)?;
        new.commit()?;
        Ok(Arc::new(Matrix::open_raw(&path, self.shape, layout)?))
    }

    fn result(&self, layout: Layout, folder: Option<&Path>) -> Any<Matrix> {
        let Some(folder) = folder else {
            return Ok(Matrix::zeros(self.shape, layout)?);
        };
        let bytes = Matrix::<f64>::file_bytes(false, self.shape, layout)?;
        let new = NewFile::create(&folder.join("result"), bytes)?;
        Ok(Matrix::create(&new, false, self.shape, layout)?)
    }

    fn inputs(&self, layout: Layout, folder: Option<&Path>) -> Any<Inputs> {
        let coefficient = |n| self.matrix(n, layout.without_frame(), folder);
        let coefficients = (1..6).map(coefficient).collect::<Any<Vec<_>>>()?;
        let coefficients = coefficients.try_into().map_err(|_| "five of them")?;
        Ok(Inputs { field: self.matrix(0, layout, folder)?, coefficients })
    }

    /// Runs a job; returns the result, row by row.
    fn run(&self, job: Job, inputs: &Inputs, folder: Option<&Path>) -> Any<Vec<f64>> {
        let Inputs { field, coefficients } = inputs;
        let (result, _) =
            job.run(&Arrays { field, coefficients }, self.result(inputs.field.layout(), folder)?)?;
        let mut values = vec![0.0; self.shape.elements()];
        result.read_rows(0..self.shape.rows, &mut values)?;
        Ok(values)
    }

    fn check(
        &self,
        schemes: &[Job],
        layout: Layout,
        folder: Option<&Path>,
    ) -> Result<(), TestCaseError> {
        let inputs =
            self.inputs(layout, folder).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for job in schemes {
            let found = self.run(*job, &inputs, folder);
            let found = found
                .map_err(|error| TestCaseError::fail(format!("{job:?}, {layout}: {error}")))?;
            let differs =
                found.iter().zip(&self.expected).position(|(a, b)| a.to_bits() != b.to_bits());
            prop_assert_eq!(differs, None, "{:?}, {}", job, layout);
        }
        Ok(())
    }
}

/// The input of a case in one layout.
struct Inputs {
    field: Arc<Matrix>,
    coefficients: [Arc<Matrix>; 5],
}

proptest! {
    #![proptest_config(property(128))]

    #[test]
    fn every_scheme_has_the_bits_of_the_plain_double_loop(
        (rows, cols) in (1_usize..50, 1_usize..50),
        (height, width) in (1_usize..20, 1_usize..20),
        processors in 1_usize..6,
        waves in 1_usize..5,
        iterations in 0_u64..7,
        on_file in proptest::bool::weighted(0.2),
        seed: u64,
    ) {
        let case = Case::new(Shape::new(rows, cols), iterations, seed);
        let folder = on_file.then(tempfile::tempdir).transpose()?;
        let folder = folder.as_ref().map(|folder| folder.path());
        let block = Block::new(height, width);
        let job = |scheme| Job { scheme, block, iterations, memory: 1 << 30 };
        let in_blocks = [
            Scheme::Ring { processors, exchange: Exchange::Late },
            Scheme::Ring { processors, exchange: Exchange::Early { waves: 1 } },
            Scheme::Ring { processors, exchange: Exchange::Early { waves } },
            Scheme::ThreeBuffer { processors },
            Scheme::Blocks { chained: false },
            Scheme::Blocks { chained: true },
        ];
        let framed = Layout::Framed { block: block.clipped(case.shape), thickness: 1 };
        for layout in [framed.without_frame(), framed] {
            case.check(&in_blocks.map(job), layout, folder)?;
        }
        let whole = [Scheme::Sequential, Scheme::Streamed];
        let row_major: Vec<Job> = in_blocks.into_iter().chain(whole).map(job).collect();
        case.check(&row_major, Layout::RowMajor, folder)?;
    }
}

#[test]
fn the_sequential_scheme_goes_from_band_to_band() -> Any<()> {
    // A band is a megabyte: this case has four bands, the last one of a few rows.
    let case = Case::new(Shape::new(330, 1300), 3, 7);
    let folder = tempfile::tempdir()?;
    let job =
        Job { scheme: Scheme::Sequential, block: Block::new(1, 1), iterations: 3, memory: 1 << 30 };
    for folder in [None, Some(folder.path())] {
        let found = case.run(job, &case.inputs(Layout::RowMajor, folder)?, folder)?;
        assert!(found == case.expected, "other bits");
    }
    Ok(())
}

/// Returns the error of a wrong job.
fn wrong(change: impl FnOnce(&mut Job, &mut Layout, &mut Layout)) -> Any<String> {
    let case = Case::new(Shape::new(20, 20), 1, 7);
    let scheme = Scheme::Ring { processors: 2, exchange: Exchange::Late };
    let mut job = Job { scheme, block: Block::new(5, 5), iterations: 1, memory: 1 << 30 };
    let (mut field, mut coefficient) = (Layout::RowMajor, Layout::RowMajor);
    change(&mut job, &mut field, &mut coefficient);
    let field = case.matrix(0, field, None)?;
    let coefficients =
        std::array::from_fn(|_| case.matrix(1, coefficient, None).expect("it is in memory"));
    let arrays = Arrays { field: &field, coefficients: &coefficients };
    match job.run(&arrays, case.result(Layout::RowMajor, None)?) {
        Ok(_) => Err("it should have failed".into()),
        Err(error) => Ok(error.to_string()),
    }
}

#[test]
fn what_does_not_fit_together_is_an_error_that_says_so() -> Any<()> {
    let framed = Layout::Framed { block: Block::new(5, 5), thickness: 1 };
    let message = wrong(|_, _, coefficient| *coefficient = framed)?;
    assert!(message.contains("is framed"), "{message}");
    let message = wrong(|job, field, _| {
        *field = Layout::Blocked(Block::new(4, 4));
        job.block = Block::new(5, 5);
    })?;
    assert!(message.contains("5 x 5") && message.contains("4 x 4"), "{message}");
    let message = wrong(|job, _, coefficient| {
        job.scheme = Scheme::Sequential;
        *coefficient = framed.without_frame();
    })?;
    assert!(message.contains("row-major"), "{message}");
    for scheme in [
        Scheme::ThreeBuffer { processors: 2 },
        Scheme::Ring { processors: 2, exchange: Exchange::Late },
    ] {
        let message = wrong(|job, _, _| {
            job.scheme = scheme;
            job.memory = 100;
        })?;
        assert!(message.contains("100 bytes"), "{message}");
    }
    let message = wrong(|job, _, _| job.block = Block::new(0, 5))?;
    assert!(message.contains("0 x 5"), "{message}");
    Ok(())
}

#[test]
fn a_result_of_another_shape_is_refused() -> Any<()> {
    let case = Case::new(Shape::new(20, 20), 1, 7);
    let field = case.matrix(0, Layout::RowMajor, None)?;
    let coefficients = std::array::from_fn(|_| Arc::clone(&field));
    let arrays = Arrays { field: &field, coefficients: &coefficients };
    for scheme in [Scheme::Sequential, Scheme::ThreeBuffer { processors: 2 }, Scheme::Streamed] {
        let job = Job { scheme, block: Block::new(5, 5), iterations: 1, memory: 1 << 30 };
        let result = Matrix::zeros(Shape::new(20, 21), Layout::RowMajor)?;
        let outcome = job.run(&arrays, result);
        let is_refused = matches!(outcome, Err(Error::Sweep(WaveError::Shape { .. })));
        assert!(is_refused, "{scheme:?}");
    }
    Ok(())
}

#[test]
fn a_file_that_is_cut_meanwhile_is_an_error() -> Any<()> {
    let folder = tempfile::tempdir()?;
    let case = Case::new(Shape::new(300, 300), 1, 7);
    for scheme in [
        Scheme::Sequential,
        Scheme::ThreeBuffer { processors: 2 },
        Scheme::Ring { processors: 2, exchange: Exchange::Early { waves: 2 } },
    ] {
        let field = case.matrix(0, Layout::RowMajor, Some(folder.path()))?;
        let coefficients = std::array::from_fn(|_| {
            case.matrix(1, Layout::RowMajor, Some(folder.path())).expect("there is room")
        });
        let arrays = Arrays { field: &field, coefficients: &coefficients };
        let cut = std::fs::OpenOptions::new().write(true).open(coefficients[0].name())?;
        cut.set_len(200 * 300 * f64::BYTES as u64)?;
        let job = Job { scheme, block: Block::new(50, 50), iterations: 2, memory: 1 << 30 };
        let Err(error) = job.run(&arrays, case.result(Layout::RowMajor, Some(folder.path()))?)
        else {
            return Err(format!("{scheme:?} read what is not there").into());
        };
        assert!(error.to_string().contains("truncated"), "{scheme:?}: {error}");
    }
    Ok(())
}
