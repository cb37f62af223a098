//! The tables and curves.
