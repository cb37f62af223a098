//! The exchange of frontiers: the lines around a block, copied from its neighbours.
//!
//! # Contract
//! Before a block is updated, its task copies the line of each neighbour that faces the block, and
//! of each diagonal neighbour the nearest value, if the kernel uses it. The task holds a read
//! request of each neighbour meanwhile, so no neighbour changes.
//!
//! ```text
//!   NW │   N    │ NE       N: its last row       W: its last column      NW: its last value
//!      ╶────────╴          S: its first row      E: its first column     SE: its first value
//!    W │ block  │ E        in a framed matrix each of these lines is one piece of the file
//!      ╶────────╴
//!   SW │   S    │ SE
//! ```
//! A neighbour that has not been updated yet has its values in the input, not in the result.
//!
//! # Costs
//! One copy of each line. On file, one read for a line of a framed matrix, and one for each row of
//! a column otherwise.
//!
//! # Source
//! Clauss, Gustedt and Suter, "Out-of-Core Wavefront Computations with Reduced Synchronization",
//! PDP 2008. Changed: the task of the block copies the frontiers itself, without a task for each.

use syncline_store::placement::Side;

use super::{Block, Buffers, Shared, Task};
use syncline_wave::lanes::Real;
use syncline_wave::{Error, Result};

use crate::block::Blockwise;

/// The corners, in the order of [`Frontiers::corners`].
const CORNERS: [(Side, Side); 4] = [
    (Side::North, Side::West),
    (Side::North, Side::East),
    (Side::South, Side::West),
    (Side::South, Side::East),
];

impl<E: Real, K: Blockwise<E>> Shared<'_, E, K> {
    /// Returns the neighbours on the four sides, then the diagonal neighbours that the kernel uses,
    /// in the order of [`Frontiers::corners`].
    pub(super) fn around(&self, block: usize) -> [Option<usize>; 8] {
        let side = |b: usize, side: Side| self.grid.neighbour(b, side);
        let across = |vertical, horizontal| {
            let falling = (vertical == Side::North) == (horizontal == Side::West);
            let stencil = self.kernel.stencil();
            let used = if falling { stencil.diagonal() } else { stencil.corners() };
            side(block, vertical).and_then(|b| side(b, horizontal)).filter(|_| used)
        };
        let [a, b, c, d] = Side::ALL.map(|s| side(block, s));
        let corners = CORNERS.map(|(vertical, horizontal)| across(vertical, horizontal));
        let [e, f, g, h] = corners;
        [a, b, c, d, e, f, g, h]
    }
}

impl<E: Real, K: Blockwise<E>> Task<'_, E, K> {
    /// Copies the frontiers of the neighbours into the buffers.
    pub(super) fn read_frontiers(
        &self,
        around: [Option<&Block<E>>; 8],
        buffers: &mut Buffers<E, K::Workspace>,
    ) -> Result<()> {
        let read = |n: usize, side: Side, line: &mut [E]| match (around[n], &self.neighbours[n]) {
            (Some(block), Some(input)) if block.rounds == 0 => Ok(input.frontier(side, line)?),
            (Some(block), _) => Ok(block.region.frontier(side, line)?),
            (None, _) => Ok::<_, Error>(()),
        };
        for (n, side) in Side::ALL.into_iter().enumerate() {
            let len = around[n].map_or(0, |_| self.input.rect().line(side));
            read(n, side.facing(), buffers.frontiers.line_mut(side, len))?;
        }
        for (c, (vertical, horizontal)) in CORNERS.into_iter().enumerate() {
            let Some(across) = &self.neighbours[4 + c] else {
                buffers.frontiers.corners[c] = E::splat(f64::NAN);
                continue;
            };
            // The line of the diagonal block that faces this block's row of blocks; its near end is
            // the corner.
            buffers.line.resize(across.rect().line(vertical), E::default());
            read(4 + c, vertical.facing(), &mut buffers.line)?;
            let near =
                if horizontal == Side::West { buffers.line.last() } else { buffers.line.first() };
            buffers.frontiers.corners[c] = near.copied().unwrap_or_default();
        }
        Ok(())
    }
}
