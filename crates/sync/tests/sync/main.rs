//! Barriers and locks as their users see them, and a signal that two processes share.

mod barriers;
mod common;
mod locks;
mod shared_signal;
