//! What the commands of Syncline have in common.
//!
//! # Contract
//! A command prints quantities in one form, reads them in the same form, and treats signals as all
//! other commands do. Nothing here knows of a single command. No crate below the applications
//! depends on this one.
//!
//! | module     | contents                                                    |
//! |------------|-------------------------------------------------------------|
//! | `units`    | sizes, rates and times, parsed and printed                  |
//! | `words`    | plurals, and lists in words                                 |
//! | `terminal` | lines and progress bars on standard error                   |
//! | `signals`  | the signals that end a command, and progress without a bar  |
//! | `trace`    | the option `--trace`                                        |

pub mod signals;
pub mod terminal;
pub mod trace;
pub mod units;
pub mod words;
