//! The way in which a sweep will use the memory that it is allowed.

pub use crate::run::plan::ArrayPlan;
pub use crate::strip::plan::StreamPlan;
pub use crate::sweep::SweepPlan;
