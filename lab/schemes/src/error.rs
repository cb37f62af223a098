//! What can go wrong with a race.

use syncline_store::Shape;

/// A result of this program.
pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Sweep(#[from] syncline_wave::Error),
    #[error(transparent)]
    Store(#[from] syncline_store::Error),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("{what}: {source}")]
    Json { what: String, source: serde_json::Error },
    #[error("the data in {folder} are {found}, not {asked}: take another folder")]
    OtherShape { folder: String, found: Shape, asked: Shape },
    #[error("{one} and {other} differ after {iterations} iteration(s)")]
    Differ { one: String, other: String, iterations: u64 },
}

impl Error {
    /// That this could not be done.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |source| Error::Io { what, source }
    }

    /// That this could not be read or written.
    pub(crate) fn json(what: impl Into<String>) -> impl FnOnce(serde_json::Error) -> Self {
        let what = what.into();
        |source| Error::Json { what, source }
    }
}
