//! Every element is stored exactly where its layout says, and the frontiers of a framed block are
//! contiguous.

use proptest::prelude::*;
use syncline_store::{
    Block, Error, Grid, Layout, Shape,
    placement::{Copies, Placement, Side},
};
use syncline_testkit::property;

use crate::common::{blocks, layouts, shapes};

fn placements() -> impl Strategy<Value = Placement> {
    (shapes(), blocks()).prop_flat_map(|(shape, block)| {
        layouts(block).prop_map(move |layout| {
            Placement::new(layout, Grid::new(shape, block)).expect("the layout goes with the grid")
        })
    })
}

/// Returns the order of a block's elements as in the paper's figure 3, (row, column) within the
/// block.
fn as_drawn(layout: Layout, rows: usize, cols: usize) -> Vec<(usize, usize)> {
    let mut order = Vec::new();
    let mut rectangle = |rows: std::ops::Range<usize>, cols: std::ops::Range<usize>| {
        order.extend(rows.flat_map(|row| cols.clone().map(move |col| (row, col))));
    };
    if let Layout::Framed { thickness, .. } = layout {
        let (t, l) = (thickness.min(rows), thickness.min(cols));
        rectangle(0..t, 0..cols);
        rectangle(0..rows, 0..l);
        rectangle(t..rows - t.min(rows), l..cols - l.min(cols));
        rectangle(0..rows, cols - l..cols);
        rectangle(rows - t..rows, 0..cols);
    } else {
        rectangle(0..rows, 0..cols);
    }
    order
}

proptest! {
    #![proptest_config(property(256))]

    #[test]
    fn blocks_cover_the_shape_once(shape in shapes(), block in blocks()) {
        let grid = Grid::new(shape, block);
        let mut seen = vec![0; shape.elements()];
        for index in 0..grid.len() {
            let rect = grid.rect(index);
            prop_assert!(rect.elements() > 0);
            let (i, j) = grid.at(index);
            prop_assert_eq!(grid.index(i, j), index);
            for row in rect.row..rect.row + rect.rows {
                for col in rect.col..rect.col + rect.cols {
                    seen[row * shape.cols + col] += 1;
                }
            }
            for side in Side::ALL {
                if let Some(neighbour) = grid.neighbour(index, side) {
                    prop_assert_eq!(grid.neighbour(neighbour, side.facing()), Some(index));
                    prop_assert_eq!(grid.rect(neighbour).line(side), rect.line(side));
                }
            }
        }
        prop_assert!(seen.into_iter().all(|times| times == 1));
    }

    #[test]
    fn elements_stand_where_the_layout_says(place in placements()) {
        let (grid, shape) = (*place.grid(), place.grid().shape());
        let mut wanted = vec![Vec::new(); shape.elements()];
        let mut next = 0;
        for index in 0..grid.len() {
            let rect = grid.rect(index);
            if place.layout() == Layout::RowMajor {
                next = rect.row * shape.cols + rect.col;
            } else {
                let block = place.block(index);
                prop_assert_eq!(block.start, next);
                prop_assert_eq!(block.len(), place.values(index));
            }
            for (row, col) in as_drawn(place.layout(), rect.rows, rect.cols) {
                let element = (rect.row + row) * shape.cols + rect.col + col;
                match place.layout() {
                    Layout::RowMajor => wanted[element].push(element),
                    _ => wanted[element].push(next),
                }
                next += 1;
            }
        }
        let places: Vec<Vec<usize>> = (0..shape.elements())
            .map(|element| place.offsets(element / shape.cols, element % shape.cols).collect())
            .collect();
        prop_assert_eq!(&places, &wanted);
        // Each stored value belongs to exactly one element.
        let mut all: Vec<usize> = places.into_iter().flatten().collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..place.stored()).collect::<Vec<_>>());
        prop_assert_eq!(place.layout().stored(shape).ok(), Some(place.stored()));
        prop_assert_eq!(place.offsets(shape.rows, 0).count() + place.offsets(0, shape.cols).count(), 0);
    }

    #[test]
    fn frontiers_are_the_outer_lines(place in placements()) {
        let grid = *place.grid();
        for index in 0..grid.len() {
            let rect = grid.rect(index);
            for side in Side::ALL {
                let (frontier, line) = (place.frontier(index, side), place.line(index, side));
                if let Layout::Framed { thickness, .. } = place.layout() {
                    let thickness = thickness.min(if side.is_row() { rect.rows } else { rect.cols });
                    prop_assert!(frontier.is_contiguous());
                    prop_assert_eq!(frontier.span().len(), thickness * rect.line(side));
                    let (inner, outer) = (line.span(), frontier.span());
                    prop_assert!(outer.start <= inner.start && inner.end <= outer.end);
                } else {
                    prop_assert_eq!(frontier, line);
                }
                let stored: Vec<usize> = line.runs().flatten().collect();
                prop_assert_eq!(stored.len(), rect.line(side));
                for (nth, at) in stored.into_iter().enumerate() {
                    let (row, col) = match side {
                        Side::North => (rect.row, rect.col + nth),
                        Side::South => (rect.row + rect.rows - 1, rect.col + nth),
                        Side::West => (rect.row + nth, rect.col),
                        Side::East => (rect.row + nth, rect.col + rect.cols - 1),
                    };
                    prop_assert!(place.offsets(row, col).any(|offset| offset == at));
                }
            }
        }
    }

    #[test]
    fn sections_for_reading_have_each_element_once(place in placements()) {
        for index in 0..place.grid().len() {
            let rect = place.grid().rect(index);
            let mut seen = vec![0; rect.elements()];
            for section in place.sections(index, Copies::One) {
                for (row, run) in section.rows().runs().enumerate() {
                    for (col, at) in run.enumerate() {
                        let (row, col) = (section.rect.row + row, section.rect.col + col);
                        seen[row * rect.cols + col] += 1;
                        let mut offsets = place.offsets(rect.row + row, rect.col + col);
                        prop_assert!(offsets.any(|offset| offset == at));
                    }
                }
            }
            prop_assert!(seen.into_iter().all(|times| times == 1));
        }
    }
}

/// The paper's table 1: the cost of the corners of a 2 GiB matrix.
#[test]
fn the_frames_of_2_gib_cost_what_table_1_says() -> Result<(), Error> {
    let shape = Shape::new(16384, 16384);
    let plain = Layout::RowMajor.stored(shape)?;
    assert_eq!(plain * 8, 2 << 30);
    let table = [
        (4096, 512, "2.38e-5"),
        (512, 32 << 10, "1.53e-3"),
        (64, 2 << 20, "9.77e-2"),
        (8, 128 << 20, "6.25e0"),
    ];
    for (side, overhead, percent) in table {
        let block = Block::new(side, side);
        assert_eq!(Layout::Blocked(block).stored(shape)?, plain);
        let framed = Layout::Framed { block, thickness: 1 }.stored(shape)?;
        assert_eq!((framed - plain) * 8, overhead, "blocks of {block}");
        let share = (framed - plain) as f64 / plain as f64 * 100.0;
        assert_eq!(format!("{share:.2e}"), percent, "blocks of {block}");
    }
    Ok(())
}

/// The overhead is 4 T² values a block (W11), for any thickness.
#[test]
fn the_overhead_grows_with_the_square_of_the_thickness() -> Result<(), Error> {
    let (shape, block) = (Shape::new(120, 90), Block::new(20, 30));
    for thickness in 1..=10 {
        let framed = Layout::Framed { block, thickness }.stored(shape)?;
        assert_eq!(framed - shape.elements(), 4 * thickness * thickness * (6 * 3));
    }
    Ok(())
}

#[test]
fn impossible_layouts_are_refused() {
    let shape = Shape::new(4, 4);
    let block = Block::new(2, 2);
    assert!(matches!(Layout::RowMajor.stored(Shape::new(0, 4)), Err(Error::Empty { .. })));
    assert!(matches!(Layout::RowMajor.stored(Shape::new(4, 0)), Err(Error::Empty { .. })));
    assert!(matches!(
        Layout::RowMajor.stored(Shape::new(usize::MAX, 2)),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(Layout::Blocked(Block::new(0, 2)).stored(shape), Err(Error::BadBlock { .. })));
    assert!(matches!(
        Layout::Framed { block, thickness: 0 }.stored(shape),
        Err(Error::BadBlock { .. })
    ));
    let other = Placement::new(Layout::Blocked(block), Grid::new(shape, Block::new(2, 3)));
    assert!(matches!(other, Err(Error::Grid { .. })));
}
