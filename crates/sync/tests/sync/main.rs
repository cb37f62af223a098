//! Barriers and locks through their public interface, and a signal that two processes share.

mod barriers;
mod common;
mod locks;
mod shared_signal;
