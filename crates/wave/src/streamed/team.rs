//! The streamed sweep on a team: the members share the columns of every band, one input and one
//! output. Or each has the whole input, and result, in its memory ([`gather`]; see [`whole`]).
//!
//! # Contract
//! All members call [`run`] with the same sweep. The result has the bits of the sweep in one
//! process, whatever the number of members and wherever they are.
//!
//! ```text
//!            member 0        member 1        member 2            one input and one output file,
//!  band 0   [1][2][3][4]──> [5][6][7][8]──> [9] ...             which all members open
//!  band 1         [5][6]<── [7] ...                             [n]: the step in which a piece may
//!                                                               run at the earliest
//! ```
//! Each member runs the pieces of its columns of every band, in a ring of its own. At a cut between
//! two members, two messages per band carry values of the field ([`strip::cut`]). They are data of
//! locations of one overlay, which all members run ([`syncline_overlay::Checked::run_on`]). So a
//! member follows its western neighbour by about one band, in the same pass.
//!
//! A few consecutive members of one host are a [`group`]: they share the panels and the final rows
//! of their columns, so that each row is read and written by one request.
//!
//! # The overlay
//! The table of [`pass`](crate::pass), for each member, with these differences. Panels and writers
//! are those of a group; rows out are those of a member, and `write` holds those of all members of
//! the group:
//!
//! | task           | reader | panel | values eastward          | values westward                |
//! |----------------|--------|-------|--------------------------|--------------------------------|
//! | read r         | X      | X     |                          |                                |
//! | wave r, first  |        | I     | I, at the western cut    | X, at the western cut          |
//! | wave r, last   |        | I     | X, at the eastern cut    | I of r - 1, at the eastern cut |
//!
//! If a pass reads the file of the pass before, each member has a task `check r`, with I on the
//! panel, that compares the columns which the member needs with the [`sums`] of their writers. If
//! the next pass reads the file, each member has a task `sum r`, with I on its rows out, between
//! its waves and `write r`.
//!
//! A disk block that belongs to several groups is written by one of them. `write r` puts the bytes
//! of others into `edge` locations, and `edge r` takes those of this group from others and writes
//! the blocks that they complete.
//!
//! With the values westward goes the progress of the members to the east: so the first member can
//! show that of all.
//!
//! # Phases
//! ```text
//! same arguments? inputs seen alike? ─> one plan for all
//!   ─> rank 0 creates the hidden output, all open it
//!   ─> passes (one overlay each; all sync their data, and exchange their sums)
//!   ─> rank 0 gives the output its name
//! ```
//! An error of one member in any phase is an error of all, with the rank and the cause. Nothing has
//! the name of the output before all members have synced their data. The hidden file is removed
//! when the run fails, or by the next run for the same output.
//!
//! # Costs
//! As for one process; the overlap of the columns at a cut is packed by both members, and read by
//! both groups. Two messages for each cut and band. Of several passes, the checksum of what is
//! written, and of what is read again.
//!
//! # Source
//! This project's. Clauss and Gustedt (PDP 2010) name the distributed case as future work.
//!
//! [`strip::cut`]: crate::strip::cut

mod bands;
mod costs;
mod data;
mod group;
mod link;
mod pass;
mod plan;
mod run;
mod same;
mod sums;
mod whole;

pub use bands::{TeamBands, TeamSweep};
pub use link::Link;
pub(crate) use run::{all, begin, check_views, decode, encode, gather, run};
pub(crate) use same::{of_settings, same};
