//! The model on the papers' data, and its properties on any data.

use proptest::prelude::*;
use syncline_testkit::property;

use super::*;

const MIB: f64 = (1 << 20) as f64;

/// The papers' disks: the bandwidth of their Table 2, and the seek time of disks of their kind.
const GRELON: Disk = Disk { read: 64.0 * MIB, write: 29.0 * MIB, piece: 13e-3 };
const CAPRICORNE: Disk = Disk { read: 52.0 * MIB, write: 47.0 * MIB, piece: 8e-3 };

fn blocked() -> Layout {
    Layout::Blocked(Block::new(1, 1))
}

fn framed() -> Layout {
    Layout::Framed { block: Block::new(1, 1), thickness: 1 }
}

fn papers(layout: Layout, disk: Disk) -> BlockModel {
    BlockModel {
        shape: Shape::new(16384, 16384),
        layout,
        coefficients: 5,
        element: ElementType::Float64,
        memory: 2 << 30,
        workers: 4,
        iterations: 1,
        disk,
    }
}

fn seconds(model: &BlockModel, side: usize) -> f64 {
    model.time(Block::new(side, side)).unwrap().map_or(f64::INFINITY, |time| time.seconds)
}

#[test]
fn the_papers_block_is_in_the_flat_optimum() {
    for layout in [blocked(), framed()] {
        for disk in [GRELON, CAPRICORNE] {
            for iterations in [1, 20] {
                let model = BlockModel { iterations, ..papers(layout, disk) };
                let best = model.best().unwrap().unwrap();
                let (found, least) = (seconds(&model, 2048), best.seconds);
                assert!(found <= 1.05 * least, "{layout} {found} {best:?}");
                assert!((1024..=4096).contains(&best.block.rows), "{layout}: {best:?}");
            }
            // The optimum is in the interior: both ends are worse.
            let model = papers(layout, disk);
            for side in [128, 8192] {
                assert!(seconds(&model, side) > 1.2 * seconds(&model, 2048), "{layout} {side}");
            }
        }
    }
}

/// The model's disk time is that of 12 GiB read and 2 GiB written, plus at most 10 percent.
#[test]
fn the_disk_moves_what_the_papers_say() {
    for (layout, disk) in [(blocked(), GRELON), (framed(), GRELON), (framed(), CAPRICORNE)] {
        let time = papers(layout, disk).time(Block::new(2048, 2048)).unwrap().unwrap();
        let bytes = 12288.0 * MIB / disk.read + 2048.0 * MIB / disk.write;
        assert!((1.0..1.1).contains(&(time.disk / bytes)), "{time:?}");
        assert_eq!(time.blocks, 64);
    }
}

/// Row-major data are best in bands, which are contiguous in the file.
#[test]
fn row_major_data_are_cut_into_bands() {
    let best = papers(Layout::RowMajor, GRELON).best().unwrap().unwrap();
    assert_eq!(best.block.cols, 16384);
    assert!(best.windows >= 2, "{best:?}");
}

#[test]
fn data_that_do_not_fit_have_no_time() {
    let model = BlockModel { memory: 1000, ..papers(blocked(), GRELON) };
    assert_eq!(model.best().unwrap(), None);
    assert!(model.time(Block::new(0, 3)).is_err());
}

fn model() -> impl Strategy<Value = BlockModel> {
    let layout = prop_oneof![
        Just(Layout::RowMajor),
        Just(blocked()),
        (1_usize..4).prop_map(|thickness| Layout::Framed { block: Block::new(1, 1), thickness }),
    ];
    let disk = (10_f64..4000.0, 10_f64..4000.0, 0_f64..0.02)
        .prop_map(|(read, write, piece)| Disk { read: read * MIB, write: write * MIB, piece });
    let element = prop_oneof![Just(ElementType::Float64), Just(ElementType::Float32)];
    let size = (1_usize..5000, 1_usize..5000, 0_usize..8, 14_u32..34, 1_u64..9, 1_u64..40);
    (layout, disk, element, size).prop_map(|(layout, disk, element, size)| {
        let (rows, cols, coefficients, memory, workers, iterations) = size;
        let (shape, memory) = (Shape::new(rows, cols), 1 << memory);
        BlockModel { shape, layout, coefficients, element, memory, workers, iterations, disk }
    })
}

proptest! {
    #![proptest_config(property(60))]

    /// The best block size fits if any does, and no candidate is better, so neither are its
    /// neighbours.
    #[test]
    fn the_best_fits_and_is_the_best(model in model()) {
        let best = model.best().unwrap();
        let mut any = false;
        for block in model.candidates() {
            let Some(time) = model.time(block).unwrap() else { continue };
            any = true;
            let best = best.unwrap();
            prop_assert!(time.seconds.is_finite() && time.seconds > 0.0);
            prop_assert!(best.seconds <= time.seconds);
            prop_assert!(time.window + time.blocks as u64 * TASK <= model.memory);
        }
        prop_assert_eq!(best.is_some(), any);
        if let Some(best) = best {
            let Block { rows, cols } = best.block;
            let neighbours = [Block::new(2 * rows, 2 * cols), Block::new(rows.div_ceil(2), cols.div_ceil(2))];
            for block in neighbours.map(|block| block.clipped(model.shape)) {
                let other = model.time(block).unwrap().map_or(f64::INFINITY, |time| time.seconds);
                let looked_at = model.candidates().any(|candidate| candidate == block);
                prop_assert!(!looked_at || best.seconds <= other);
            }
        }
    }

    /// A disk that is faster in any respect, more memory or more processors make nothing slower.
    #[test]
    fn what_is_better_is_not_slower(model in model(), side in 1_usize..600, factor in 1_f64..9.0) {
        let Disk { read, write, piece } = model.disk;
        let block = Block::new(side, side).clipped(model.shape);
        prop_assume!(model.shape.rows.div_ceil(block.rows) * model.shape.cols.div_ceil(block.cols) < 10_000);
        let seconds = |model: BlockModel| model.time(block).unwrap().map_or(f64::INFINITY, |time| time.seconds);
        let least = seconds(model);
        let on = |disk| BlockModel { disk, ..model };
        for better in [
            on(Disk { read: factor * read, write, piece }),
            on(Disk { read, write: factor * write, piece }),
            on(Disk { read, write, piece: piece / factor }),
            BlockModel { memory: 2 * model.memory, ..model },
            BlockModel { workers: model.workers + 1, ..model },
        ] {
            prop_assert!(seconds(better) <= least * (1.0 + 1e-9), "{better:?}");
        }
    }

    #[test]
    fn more_coefficients_take_longer(model in model(), side in 8_usize..600) {
        let block = Block::new(side, side).clipped(model.shape);
        prop_assume!(model.shape.rows.div_ceil(block.rows) * model.shape.cols.div_ceil(block.cols) < 10_000);
        let disk = |model: BlockModel| model.time(block).unwrap().map_or(f64::INFINITY, |time| time.disk);
        let more = BlockModel { coefficients: model.coefficients + 1, ..model };
        prop_assert!(disk(more) >= disk(model));
    }
}
