//! The functions of FLINT that this crate calls, loaded at run time.
//!
//! FLINT is not linked: the workspace builds and tests without it, a user installs it when it is
//! needed, and the library, which is under the LGPL, stays replaceable.
//!
//! # Layouts
//! FLINT's structures are opaque here. Each is memory of a fixed size, which is larger than the
//! structure of any release from 2.7 to 3.x, and only FLINT's functions read and write it. The
//! table has the sizes of FLINT 2.9 on 64 bits.
//!
//! | structure                   | bytes | here |
//! |-----------------------------|-------|------|
//! | `nmod_mpoly_ctx_struct`     |   624 | 4096 |
//! | `nmod_mpoly_struct`         |    48 |   64 |
//! | `nmod_mpoly_univar_struct`  |    32 |   64 |
//! | `nmod_mpoly_factor_struct`  |    40 |   64 |
//! | `nmod_poly_struct`          |    48 |   64 |
//! | `fq_nmod_ctx_struct`        |   176 |  512 |
//! | `fq_nmod_mpoly_ctx_struct`  |   776 | 4096 |
//! | `fq_nmod_mpoly_struct`      |    48 |   64 |
//! | `fq_nmod_mpoly_factor_struct` |  80 |  128 |

use std::ffi::{OsStr, c_char, c_int, c_long, c_ulong, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use crate::error::SolveError;

/// A pointer to a structure of FLINT.
pub(crate) type Opaque = *mut c_void;
/// A pointer to a structure of FLINT that the function only reads.
pub(crate) type Const = *const c_void;

macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($kind:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions by their names without the prefix `nmod_mpoly_`; `fq_` stands for
        /// `fq_nmod_mpoly_`, `field_` for `fq_nmod_ctx_`. A number of a field (`fq_nmod_t`) is an
        /// `nmod_poly_t`.
        pub(crate) struct Flint {
            $(pub(crate) $name: unsafe extern "C" fn($($kind),*) $(-> $result)?,)*
            /// Keeps the library loaded.
            _library: Library,
        }

        impl Flint {
            fn bind(library: Library) -> Result<Flint, libloading::Error> {
                // SAFETY: the types are those of FLINT's headers, which have been the same from
                // release 2.7 to 3.x for these functions.
                unsafe {
                    $(let $name = *library.get::<unsafe extern "C" fn($($kind),*) $(-> $result)?>(
                        concat!($symbol, "\0").as_bytes())?;)*
                    Ok(Flint { $($name,)* _library: library })
                }
            }
        }
    };
}

functions! {
    ctx_init = "nmod_mpoly_ctx_init": fn(Opaque, c_long, c_int, c_ulong);
    ctx_clear = "nmod_mpoly_ctx_clear": fn(Opaque);
    init = "nmod_mpoly_init": fn(Opaque, Const);
    clear = "nmod_mpoly_clear": fn(Opaque, Const);
    set = "nmod_mpoly_set": fn(Opaque, Const, Const);
    equal = "nmod_mpoly_equal": fn(Const, Const, Const) -> c_int;
    set_ui = "nmod_mpoly_set_ui": fn(Opaque, c_ulong, Const);
    generator = "nmod_mpoly_gen": fn(Opaque, c_long, Const);
    add = "nmod_mpoly_add": fn(Opaque, Const, Const, Const);
    sub = "nmod_mpoly_sub": fn(Opaque, Const, Const, Const);
    neg = "nmod_mpoly_neg": fn(Opaque, Const, Const);
    scalar_mul_ui = "nmod_mpoly_scalar_mul_ui": fn(Opaque, Const, c_ulong, Const);
    mul = "nmod_mpoly_mul": fn(Opaque, Const, Const, Const);
    pow_ui = "nmod_mpoly_pow_ui": fn(Opaque, Const, c_ulong, Const) -> c_int;
    divides = "nmod_mpoly_divides": fn(Opaque, Const, Const, Const) -> c_int;
    divrem_ideal = "nmod_mpoly_divrem_ideal":
        fn(*const Opaque, Opaque, Const, *const Opaque, c_long, Const);
    gcd = "nmod_mpoly_gcd": fn(Opaque, Const, Const, Const) -> c_int;
    derivative = "nmod_mpoly_derivative": fn(Opaque, Const, c_long, Const);
    degree_si = "nmod_mpoly_degree_si": fn(Const, c_long, Const) -> c_long;
    total_degree_si = "nmod_mpoly_total_degree_si": fn(Const, Const) -> c_long;
    length = "nmod_mpoly_length": fn(Const, Const) -> c_long;
    get_term_coeff_ui = "nmod_mpoly_get_term_coeff_ui": fn(Const, c_long, Const) -> c_ulong;
    get_term_exp_ui = "nmod_mpoly_get_term_exp_ui": fn(*mut c_ulong, Const, c_long, Const);
    push_term_ui_ui = "nmod_mpoly_push_term_ui_ui": fn(Opaque, c_ulong, *const c_ulong, Const);
    sort_terms = "nmod_mpoly_sort_terms": fn(Opaque, Const);
    combine_like_terms = "nmod_mpoly_combine_like_terms": fn(Opaque, Const);
    evaluate_one_ui = "nmod_mpoly_evaluate_one_ui": fn(Opaque, Const, c_long, c_ulong, Const);
    evaluate_all_ui = "nmod_mpoly_evaluate_all_ui": fn(Const, *const c_ulong, Const) -> c_ulong;
    get_coeff_vars_ui = "nmod_mpoly_get_coeff_vars_ui":
        fn(Opaque, Const, *const c_long, *const c_ulong, c_long, Const);
    to_univar = "nmod_mpoly_to_univar": fn(Opaque, Const, c_long, Const);
    from_univar = "nmod_mpoly_from_univar": fn(Opaque, Const, c_long, Const);
    univar_init = "nmod_mpoly_univar_init": fn(Opaque, Const);
    univar_clear = "nmod_mpoly_univar_clear": fn(Opaque, Const);
    univar_length = "nmod_mpoly_univar_length": fn(Const, Const) -> c_long;
    univar_exponent = "nmod_mpoly_univar_get_term_exp_si": fn(Const, c_long, Const) -> c_long;
    univar_coefficient = "nmod_mpoly_univar_get_term_coeff": fn(Opaque, Const, c_long, Const);
    univar_set_coeff_ui = "nmod_mpoly_univar_set_coeff_ui": fn(Opaque, c_ulong, Const, Const);
    content_vars = "nmod_mpoly_content_vars":
        fn(Opaque, Const, *mut c_long, c_long, Const) -> c_int;
    make_monic = "nmod_mpoly_make_monic": fn(Opaque, Const, Const);
    factor = "nmod_mpoly_factor": fn(Opaque, Const, Const) -> c_int;
    factor_init = "nmod_mpoly_factor_init": fn(Opaque, Const);
    factor_clear = "nmod_mpoly_factor_clear": fn(Opaque, Const);
    factor_length = "nmod_mpoly_factor_length": fn(Const, Const) -> c_long;
    factor_base = "nmod_mpoly_factor_get_base": fn(Opaque, Const, c_long, Const);
    factor_exponent = "nmod_mpoly_factor_get_exp_si": fn(Opaque, c_long, Const) -> c_long;
    number_init = "nmod_poly_init": fn(Opaque, c_ulong);
    number_clear = "nmod_poly_clear": fn(Opaque);
    number_set = "nmod_poly_set_coeff_ui": fn(Opaque, c_long, c_ulong);
    number_get = "nmod_poly_get_coeff_ui": fn(Const, c_long) -> c_ulong;
    field_init = "fq_nmod_ctx_init_modulus": fn(Opaque, Const, *const c_char);
    field_clear = "fq_nmod_ctx_clear": fn(Opaque);
    fq_ctx_init = "fq_nmod_mpoly_ctx_init": fn(Opaque, c_long, c_int, Const);
    fq_ctx_clear = "fq_nmod_mpoly_ctx_clear": fn(Opaque);
    fq_init = "fq_nmod_mpoly_init": fn(Opaque, Const);
    fq_clear = "fq_nmod_mpoly_clear": fn(Opaque, Const);
    fq_length = "fq_nmod_mpoly_length": fn(Const, Const) -> c_long;
    fq_get_term_coeff = "fq_nmod_mpoly_get_term_coeff_fq_nmod": fn(Opaque, Const, c_long, Const);
    fq_get_term_exp_ui = "fq_nmod_mpoly_get_term_exp_ui": fn(*mut c_ulong, Const, c_long, Const);
    fq_push_term = "fq_nmod_mpoly_push_term_fq_nmod_ui":
        fn(Opaque, Const, *const c_ulong, Const);
    fq_resultant = "fq_nmod_mpoly_resultant": fn(Opaque, Const, Const, c_long, Const) -> c_int;
    fq_make_monic = "fq_nmod_mpoly_make_monic": fn(Opaque, Const, Const);
    fq_factor = "fq_nmod_mpoly_factor": fn(Opaque, Const, Const) -> c_int;
    fq_factor_init = "fq_nmod_mpoly_factor_init": fn(Opaque, Const);
    fq_factor_clear = "fq_nmod_mpoly_factor_clear": fn(Opaque, Const);
    fq_factor_length = "fq_nmod_mpoly_factor_length": fn(Const, Const) -> c_long;
    fq_factor_base = "fq_nmod_mpoly_factor_get_base": fn(Opaque, Const, c_long, Const);
    fq_factor_exponent = "fq_nmod_mpoly_factor_get_exp_si": fn(Opaque, c_long, Const) -> c_long;
}

impl std::fmt::Debug for Flint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flint")
    }
}

/// The names under which distributions install FLINT, newest first. `SYNCLINE_FLINT` names another
/// file.
const NAMES: [&str; 8] = [
    "libflint.so",
    "libflint.so.22",
    "libflint.so.21",
    "libflint.so.20",
    "libflint.so.19",
    "libflint.so.18",
    "libflint.so.17",
    "libflint.so.16",
];

/// Loads a file. Functions are bound when they are first called, which saves a worker a
/// millisecond.
fn load(name: &OsStr) -> Result<Flint, libloading::Error> {
    // SAFETY: FLINT's initialisers only set up its own variables.
    unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL) }.and_then(Flint::bind)
}

/// The reason why a file cannot be loaded.
fn reason(name: &OsStr, error: &libloading::Error) -> String {
    let why = std::error::Error::source(error).map_or_else(|| error.to_string(), |e| e.to_string());
    format!("{}: {why}", name.display())
}

/// Returns the functions of FLINT; the first call loads it.
///
/// # Errors
/// [`SolveError::Flint`] says what to install.
pub(crate) fn flint() -> Result<&'static Flint, SolveError> {
    static FLINT: OnceLock<Result<Flint, String>> = OnceLock::new();
    let find = || match std::env::var_os("SYNCLINE_FLINT") {
        Some(path) => load(&path).map_err(|why| format!("SYNCLINE_FLINT={}", reason(&path, &why))),
        None => {
            let mut first = None;
            for name in NAMES {
                match load(name.as_ref()) {
                    Ok(found) => return Ok(found),
                    Err(why) => _ = first.get_or_insert(reason(name.as_ref(), &why)),
                }
            }
            Err(first.unwrap_or_default())
        }
    };
    FLINT.get_or_init(find).as_ref().map_err(|why| SolveError::Flint { why: why.clone() })
}
