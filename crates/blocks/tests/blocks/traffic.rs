//! The bytes that a matrix counts are those of the papers' model.

use std::sync::Arc;

use syncline_blocks::plan::io_model;
use syncline_store::{Block, Layout, Shape, chunk::Traffic, placement::Side};

use crate::Real;
use crate::common::{filled, numbers};

const SHAPE: Shape = Shape::new(64, 96);
const BLOCK: Block = Block::new(16, 32);

fn check_traffic<T: Real>() -> Result<(), Box<dyn std::error::Error>> {
    let layouts =
        [Layout::RowMajor, Layout::Blocked(BLOCK), Layout::Framed { block: BLOCK, thickness: 1 }];
    for layout in layouts {
        let folder = tempfile::tempdir()?;
        let values = numbers::<T>(1, SHAPE.elements(), 1.0);
        let matrix = Arc::new(filled(Some(folder.path()), SHAPE, layout, &values));
        let (grid, before) = (matrix.grid(BLOCK)?, matrix.chunk().traffic());
        for index in 0..grid.len() {
            let tile = matrix.tile(&grid, index);
            tile.load(&mut vec![T::default(); tile.rect().elements()])?;
            for side in Side::ALL {
                if let Some(neighbour) = grid.neighbour(index, side) {
                    let neighbour = matrix.tile(&grid, neighbour);
                    let side = side.facing();
                    neighbour
                        .frontier(side, &mut vec![T::default(); neighbour.rect().line(side)])?;
                }
            }
        }
        let (model, after) = (io_model(layout, grid, 0, T::TYPE)?, matrix.chunk().traffic());
        let Traffic { read, written } = before;
        assert_eq!(after, Traffic { read: read + model.read, written });
    }
    Ok(())
}

#[test]
fn traffic_is_what_the_model_says() -> Result<(), Box<dyn std::error::Error>> {
    check_traffic::<f64>()?;
    check_traffic::<f32>()
}
