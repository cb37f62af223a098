//! Tests of one-sided memory through its public interface: misuse, deadlines, members that leave,
//! calls that do not match.

mod deadlines;
mod left;
mod long;
mod mismatched;
mod misuse;
mod processes;
mod programs;
