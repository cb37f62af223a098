//! Matrices, tiles and regions return the same values in every layout and backing, and count the
//! bytes that they map.

use std::sync::Arc;

use proptest::prelude::*;
use syncline_store::{
    Block, Error, Grid, Layout, Matrix, NewFile, Result, Shape,
    blocks::{Contents, MatrixBlock, Region, Tile},
    chunk::{Access, Chunk, Touch, Traffic},
    placement::Side,
};
use syncline_testkit::property;

use crate::common::{
    Sample, bits, blocks, everywhere, file_bytes, layouts, read, shapes, values, write,
};

fn matrices() -> impl Strategy<Value = (Shape, Block, Layout)> {
    (shapes(), blocks()).prop_flat_map(|(shape, block)| {
        layouts(block).prop_map(move |layout| (shape, block, layout))
    })
}

/// Returns the frontier, element by element.
fn line<T: Sample>(part: &MatrixBlock<T>, side: Side) -> Vec<T> {
    let rect = part.rect();
    let (last_row, last_col) = (rect.row + rect.rows - 1, rect.col + rect.cols - 1);
    (0..rect.line(side))
        .map(|nth| match side {
            Side::North => T::value(rect.row, rect.col + nth),
            Side::South => T::value(last_row, rect.col + nth),
            Side::West => T::value(rect.row + nth, rect.col),
            Side::East => T::value(rect.row + nth, last_col),
        })
        .collect()
}

fn block_values<T: Sample>(part: &MatrixBlock<T>) -> Vec<T> {
    let rect = part.rect();
    let rows = (0..rect.rows).flat_map(|row| (0..rect.cols).map(move |col| (row, col)));
    rows.map(|(row, col)| T::value(rect.row + row, rect.col + col)).collect()
}

fn check_part<T: Sample>(part: &MatrixBlock<T>) -> Result<()> {
    let mut loaded = vec![T::default(); part.rect().elements()];
    part.load(&mut loaded)?;
    assert_eq!(bits(&loaded), bits(&block_values(part)));
    for side in Side::ALL {
        let mut frontier = vec![T::default(); part.rect().line(side)];
        part.prefetch_frontier(side);
        part.frontier(side, &mut frontier)?;
        assert_eq!(bits(&frontier), bits(&line(part, side)), "{side} of {part:?}");
    }
    part.prefetch();
    if !part.in_place() {
        assert!(matches!(part.view(), Err(Error::NotInPlace { .. })));
        return Ok(());
    }
    let view = part.view()?;
    assert_eq!((view.rows(), view.cols()), (part.rows(), part.cols()));
    for (row, wanted) in loaded.chunks_exact(part.cols()).enumerate() {
        assert_eq!(bits(view.row(row)), bits(wanted));
    }
    Ok(())
}

fn check_tiles<T: Sample>(shape: Shape, block: Block, layout: Layout) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir()?;
    for matrix in everywhere::<T>(folder.path(), shape, layout, &values(shape))? {
        prop_assert_eq!(bits(&read(&matrix)?), bits(&values::<T>(shape)));
        check_whole(&matrix)?;
        let grid = matrix.grid(block)?;
        let matrix = Arc::new(matrix);
        for index in 0..grid.len() {
            let tile = matrix.tile(&grid, index);
            prop_assert_eq!(tile.clone().rect(), grid.rect(index));
            prop_assert!(matrix.chunk().is_resident() == (tile.resident_bytes() == 0));
            check_part(&tile)?;
        }
    }
    Ok(())
}

/// A row-major matrix in memory is lent as a slice; a matrix on file returns the position of its
/// rows.
fn check_whole<T: Sample>(matrix: &Matrix<T>) -> Result<(), TestCaseError> {
    let (row_major, on_file) = (matrix.layout() == Layout::RowMajor, matrix.chunk().is_file());
    let wanted = bits(&values::<T>(matrix.shape()));
    match matrix.as_slice() {
        Some(slice) => prop_assert_eq!(bits(slice), wanted.clone()),
        None => prop_assert!(on_file || !row_major),
    }
    match matrix.row_major_file() {
        Some(file) => {
            prop_assert!(on_file && row_major);
            let bytes = std::fs::read(file.path)?;
            let elements = bytes[file.start as usize..].chunks_exact(T::BYTES);
            let widened = elements.map(|element| {
                let mut wide = [0; 8];
                wide[..T::BYTES].copy_from_slice(element);
                u64::from_le_bytes(wide)
            });
            prop_assert_eq!(widened.collect::<Vec<_>>(), wanted);
        }
        None => prop_assert!(!on_file || !row_major),
    }
    Ok(())
}

fn check_regions<T: Sample>(
    (shape, block, layout): (Shape, Block, Layout),
    order: prop::sample::Index,
) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("matrix");
    let new = NewFile::create(&path, Matrix::<T>::file_bytes(false, shape, layout)?)?;
    let on_file = Matrix::create(&new, false, shape, layout)?;
    let on_held = Matrix::create(&new, false, shape, layout)?;
    on_held.hold(Touch::Update)?;
    // The file has no name yet, and a held file is not lent as a slice.
    prop_assert_eq!((on_file.row_major_file(), on_held.as_slice().is_some()), (None, false));
    for (nth, matrix) in [on_file, on_held, Matrix::zeros(shape, layout)?].into_iter().enumerate() {
        let grid = matrix.grid(block)?;
        let mut regions = matrix.into_regions(grid)?;
        let middle = order.index(regions.len());
        regions.rotate_left(middle);
        for region in &mut regions {
            let wanted: Vec<T> = block_values(region);
            if region.in_place() && nth != 1 {
                let mut view = region.view_mut(Contents::Discard)?;
                for (row, wanted) in wanted.chunks_exact(view.cols()).enumerate() {
                    view.row_mut(row).copy_from_slice(wanted);
                    assert_eq!(bits(view.row(row)), bits(wanted));
                }
            } else {
                region.store(&wanted)?;
            }
        }
        for region in &regions {
            check_part(region)?;
        }
        let matrix = Matrix::from_regions(regions)?;
        prop_assert_eq!(bits(&read(&matrix)?), bits(&values::<T>(shape)));
    }
    new.commit()?;
    let matrix = Matrix::<T>::open_raw(&path, shape, layout)?;
    prop_assert_eq!(bits(&read(&matrix)?), bits(&values::<T>(shape)));
    Ok(())
}

fn check_copies<T: Sample>(shape: Shape, layout: Layout) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("matrix");
    let new = NewFile::create(&path, Matrix::<T>::file_bytes(false, shape, layout)?)?;
    let matrix = Matrix::<T>::create(&new, false, shape, layout)?;
    let grid = layout.grid(shape)?;
    for region in &mut matrix.into_regions(grid)? {
        region.store(&block_values(region))?;
    }
    new.commit()?;
    let stored = std::fs::read(&path)?;
    let place = syncline_store::placement::Placement::new(layout, grid)?;
    for row in 0..shape.rows {
        for col in 0..shape.cols {
            for at in place.offsets(row, col) {
                prop_assert_eq!(
                    &stored[at * T::BYTES..][..T::BYTES],
                    &file_bytes(T::value(row, col))
                );
            }
        }
    }
    Ok(())
}

/// Values written through the slice are those that are read, and those that the regions contain.
fn check_slice<T: Sample>(shape: Shape, block: Block) -> Result<(), TestCaseError> {
    let in_memory =
        [Matrix::zeros(shape, Layout::RowMajor)?, Matrix::shared(shape, Layout::RowMajor)?];
    for mut matrix in in_memory {
        let slice = matrix.as_mut_slice().ok_or_else(|| TestCaseError::fail("it is in memory"))?;
        prop_assert_eq!(slice.len(), shape.elements());
        slice.copy_from_slice(&values::<T>(shape));
        prop_assert_eq!(bits(&read(&matrix)?), bits(&values::<T>(shape)));
        prop_assert_eq!(matrix.chunk().traffic(), Traffic::default());
        let grid = matrix.grid(block)?;
        for region in &matrix.into_regions(grid)? {
            check_part(region)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(property(64))]

    #[test]
    fn tiles_are_what_was_written((shape, block, layout) in matrices()) {
        check_tiles::<f64>(shape, block, layout)?;
        check_tiles::<f32>(shape, block, layout)?;
    }

    #[test]
    fn regions_are_disjoint_and_make_the_whole(matrix in matrices(), order in any::<prop::sample::Index>()) {
        check_regions::<f64>(matrix, order)?;
        check_regions::<f32>(matrix, order)?;
    }

    #[test]
    fn a_store_writes_all_copies(shape in shapes(), block in blocks(), thickness in 1_usize..5) {
        check_copies::<f64>(shape, Layout::Framed { block, thickness })?;
        check_copies::<f32>(shape, Layout::Framed { block, thickness })?;
    }

    #[test]
    fn a_slice_is_the_matrix(shape in shapes(), block in blocks()) {
        check_slice::<f64>(shape, block)?;
        check_slice::<f32>(shape, block)?;
    }
}

const SHAPE: Shape = Shape::new(64, 96);
const BLOCK: Block = Block::new(16, 32);

fn on_file<T: Sample>(
    folder: &tempfile::TempDir,
    layout: Layout,
) -> Result<(Arc<Matrix<T>>, Grid)> {
    let path = folder.path().join("matrix");
    write::<T>(&path, false, SHAPE, layout, &values(SHAPE))?;
    let matrix = Matrix::open_raw(&path, SHAPE, layout)?;
    let grid = matrix.grid(BLOCK)?;
    Ok((Arc::new(matrix), grid))
}

fn check_written<T: Sample>() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let new = NewFile::create(&folder.path().join("matrix"), (SHAPE.elements() * T::BYTES) as u64)?;
    let matrix = Matrix::<T>::create(&new, false, SHAPE, Layout::RowMajor)?;
    let (grid, chunk) = (matrix.grid(BLOCK)?, Arc::clone(matrix.chunk()));
    let mut regions = matrix.into_regions(grid)?;
    let bytes = (16 * 32 * T::BYTES) as u64;
    regions[0].view_mut(Contents::Discard)?;
    assert_eq!(chunk.traffic(), Traffic { read: 0, written: bytes });
    regions[0].view_mut(Contents::Keep)?;
    assert_eq!(chunk.traffic(), Traffic { read: bytes, written: 2 * bytes });
    regions[0].store(&[T::from_f64(1.0); 16 * 32])?;
    assert_eq!(chunk.traffic(), Traffic { read: bytes, written: 3 * bytes });
    Ok(())
}

#[test]
fn writing_counts_reads_only_if_the_contents_are_kept() -> Result<(), Box<dyn std::error::Error>> {
    check_written::<f64>()?;
    check_written::<f32>()
}

fn check_held<T: Sample>() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let (matrix, grid) = on_file::<T>(&folder, Layout::Blocked(BLOCK))?;
    for _ in 0..3 {
        matrix.hold(Touch::Read)?;
        matrix.tile(&grid, 5).view()?;
    }
    assert_eq!(
        matrix.chunk().traffic(),
        Traffic { read: (SHAPE.elements() * T::BYTES) as u64, written: 0 }
    );
    let heap = Arc::new(Matrix::from_vec(SHAPE, values::<T>(SHAPE))?);
    heap.hold(Touch::Read)?;
    heap.tile(&grid, 5).view()?;
    assert_eq!(heap.chunk().traffic(), Traffic::default());
    Ok(())
}

#[test]
fn a_held_file_is_counted_once_and_memory_never() -> Result<(), Box<dyn std::error::Error>> {
    check_held::<f64>()?;
    check_held::<f32>()
}

fn check_truncated<T: Sample>() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let layouts =
        [Layout::RowMajor, Layout::Blocked(BLOCK), Layout::Framed { block: BLOCK, thickness: 1 }];
    for layout in layouts {
        let (matrix, grid) = on_file::<T>(&folder, layout)?;
        let file = std::fs::OpenOptions::new().write(true).open(folder.path().join("matrix"))?;
        file.set_len(100)?;
        let last = matrix.tile(&grid, grid.len() - 1);
        let mut values = vec![T::default(); last.rect().elements()];
        let error = last.load(&mut values).unwrap_err();
        assert!(error.to_string().contains("truncated to 100 bytes"), "{error}");
        assert!(last.frontier(Side::East, &mut values[..16]).is_err());
        assert!(matrix.hold(Touch::Read).is_err());
        assert!(matrix.read_row(63, &mut values[..96]).is_err());
    }
    Ok(())
}

#[test]
fn a_file_truncated_behind_our_back_is_an_error() -> Result<(), Box<dyn std::error::Error>> {
    check_truncated::<f64>()?;
    check_truncated::<f32>()
}

#[test]
fn a_file_truncated_while_mapped_is_an_error_of_populate() -> Result<(), Box<dyn std::error::Error>>
{
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("matrix");
    std::fs::write(&path, vec![0; 1 << 16])?;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path)?;
    let chunk = Chunk::from_file(file.try_clone()?, &path, Access::ReadWrite)?;
    let mapped = chunk.map(8..1 << 16, Touch::Update)?;
    assert!(mapped.is_fresh());
    mapped.populate(0..mapped.len(), true)?;
    file.set_len(4096)?;
    for write in [false, true] {
        let error = mapped.populate(0..mapped.len(), write).unwrap_err();
        let wanted = format!("bytes 8 to 65536 of {}: the file was truncated", path.display());
        assert!(error.to_string().contains(&wanted), "{error}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_done_is_an_error() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let layout = Layout::Framed { block: BLOCK, thickness: 2 };
    let (matrix, grid) = on_file::<f64>(&folder, layout)?;
    assert!(matches!(matrix.grid(Block::new(16, 16)), Err(Error::Grid { .. })));
    assert!(matches!(matrix.grid(Block::new(0, 16)), Err(Error::BadBlock { .. })));
    let beyond = matrix.tile(&grid, grid.len());
    assert!(matches!(beyond.load(&mut []), Err(Error::Range { .. })));
    let foreign = matrix.tile(&Grid::new(Shape::new(6400, 9600), BLOCK), 5000);
    assert!(matches!(foreign.load(&mut []), Err(Error::Grid { .. })));
    let tile = matrix.tile(&grid, 0);
    assert!(matches!(tile.load(&mut [0.0; 5]), Err(Error::Buffer { .. })));
    assert!(matches!(tile.frontier(Side::West, &mut [0.0; 17]), Err(Error::Buffer { .. })));
    assert!(matches!(matrix.read_rows(60..65, &mut [0.0; 480]), Err(Error::Range { .. })));
    assert!(matches!(matrix.read_row(usize::MAX, &mut [0.0; 96]), Err(Error::Range { .. })));
    drop((tile, beyond, foreign));
    let mut matrix = Arc::try_unwrap(matrix).map_err(|_| "tiles are left")?;
    assert!(matches!(matrix.write_row(0, &[0.0; 96]), Err(Error::ReadOnly { .. })));
    assert!(matches!(matrix.into_regions(grid), Err(Error::ReadOnly { .. })));
    assert!(matches!(Matrix::from_vec(SHAPE, vec![0.0; 3]), Err(Error::Buffer { .. })));
    assert!(matches!(
        Matrix::<f64>::file_bytes(true, SHAPE, layout),
        Err(Error::NotRowMajor { .. })
    ));
    let path = folder.path().join("matrix");
    assert!(matches!(
        Matrix::<f64>::open_raw(&path, SHAPE, Layout::RowMajor),
        Err(Error::Length { .. })
    ));
    Ok(())
}

#[test]
fn regions_of_two_matrices_or_too_few_make_none() -> Result<()> {
    let cut = || {
        let matrix = Matrix::<f64>::zeros(SHAPE, Layout::RowMajor)?;
        let grid = matrix.grid(BLOCK)?;
        matrix.into_regions(grid)
    };
    let (mut first, mut second) = (cut()?, cut()?);
    std::mem::swap(&mut first[0], &mut second[0]);
    assert!(matches!(Matrix::from_regions(first), Err(Error::Regions { .. })));
    let mut third = cut()?;
    third.pop();
    assert!(matches!(
        Matrix::from_regions(third),
        Err(Error::Regions { given: 11, expected: 12, .. })
    ));
    assert!(matches!(Matrix::<f64>::from_regions(Vec::new()), Err(Error::Regions { .. })));
    Ok(())
}

#[test]
fn a_matrix_goes_by_the_name_that_it_is_given() -> Result<(), Box<dyn std::error::Error>> {
    let named = Matrix::<f32>::zeros(SHAPE, Layout::RowMajor)?.named("the field");
    let error = named.read_row(64, &mut [0.0; 96]).unwrap_err().to_string();
    assert_eq!(error, "the field has 64 rows, not 65");
    assert_eq!(named.name(), "the field");
    Ok(())
}

#[test]
fn parts_go_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Matrix>();
    shared::<Tile>();
    shared::<Region>();
    shared::<Matrix<f32>>();
    shared::<Tile<f32>>();
    shared::<Region<f32>>();
}

fn check_threads<T: Sample>() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let bytes = Matrix::<T>::file_bytes(true, SHAPE, Layout::RowMajor)?;
    let new = NewFile::create(&folder.path().join("matrix.npy"), bytes)?;
    let matrix = Matrix::<T>::create(&new, true, SHAPE, Layout::RowMajor)?;
    let mut regions = matrix.into_regions(Grid::new(SHAPE, Block::new(64, 5)))?;
    std::thread::scope(|scope| {
        let writers: Vec<_> = regions
            .iter_mut()
            .map(|region| {
                scope.spawn(|| {
                    let wanted = block_values(region);
                    for _ in 0..20 {
                        let mut view = region.view_mut(Contents::Keep)?;
                        for (row, wanted) in wanted.chunks_exact(view.cols()).enumerate() {
                            view.row_mut(row).copy_from_slice(wanted);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("no writer panics"))
    })
    .map_err(|error: Error| error.to_string())?;
    assert_eq!(bits(&read(&Matrix::from_regions(regions)?)?), bits(&values::<T>(SHAPE)));
    Ok(())
}

#[test]
fn threads_write_neighbouring_regions_at_once() -> Result<(), Box<dyn std::error::Error>> {
    check_threads::<f64>()?;
    check_threads::<f32>()
}

/// Returns the number of resident bytes of this process's mappings of the file at `path`.
fn resident(path: &std::path::Path) -> Result<u64, Box<dyn std::error::Error>> {
    let maps = std::fs::read_to_string("/proc/self/smaps")?;
    let name = path.to_str().ok_or("odd path")?;
    let mut lines = maps.lines();
    let mut kib = 0;
    while lines.any(|line| line.ends_with(name)) {
        let rss = lines.find_map(|line| line.strip_prefix("Rss:")).ok_or("no Rss")?;
        kib += rss.trim().trim_end_matches(" kB").parse::<u64>()?;
    }
    Ok(kib << 10)
}

fn check_resident<T: Sample>() -> Result<(), Box<dyn std::error::Error>> {
    // Rows of 256 KiB, written at once, so that the page cache holds them in large folios.
    let (shape, block) = (Shape::new(64, 1 << 15), Block::new(64, 512));
    let numbers: Vec<T> = (0..shape.elements()).map(|n| T::from_f64((n % 4095) as f64)).collect();
    for layout in [Layout::RowMajor, Layout::Blocked(block)] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("matrix");
        write(&path, false, shape, layout, &numbers)?;
        let matrix = Arc::new(Matrix::<T>::open_raw(&path, shape, layout)?);
        let tile = matrix.tile(&matrix.grid(block)?, 3);
        assert!(tile.resident_bytes() < 5 << 20);
        let view = tile.view()?;
        assert_eq!(bits(&view.row(63)[..1]), bits(&numbers[(63 << 15) + 3 * 512..][..1]));
        let resident = resident(&path)?;
        assert!(
            ((64 * 512 * T::BYTES) as u64..=tile.resident_bytes()).contains(&resident),
            "{layout}: {resident}"
        );
    }
    Ok(())
}

#[test]
fn views_keep_no_more_resident_than_they_say() -> Result<(), Box<dyn std::error::Error>> {
    check_resident::<f64>()?;
    check_resident::<f32>()
}
