//! The look, before `main`, at the standard streams that this process was started without.

// SAFETY: the loader calls each pointer of the section as a function of C, before `main`, on the
// only thread. `look` needs nothing that Rust sets up for `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = syncline_process::streams::look;
