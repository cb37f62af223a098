//! Tests of the laboratory's command as a user sees it: processes, files, exit codes, messages.

mod bench;
mod common;
mod contest;
mod farm;
mod reproduce;
mod rma;
