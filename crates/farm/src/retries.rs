//! The retry limit of tasks.

/// The number of times that a failed task is retried.
///
/// ```
/// use syncline_farm::retries::Retries;
///
/// let retries = Retries::new(2);
/// assert!(retries.allow(1) && retries.allow(2) && !retries.allow(3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries(u32);

impl Retries {
    /// Allows `retries` retries.
    #[must_use]
    pub fn new(retries: u32) -> Retries {
        Retries(retries)
    }

    /// Returns whether a task that has failed `tries` times is tried again.
    #[must_use]
    pub fn allow(self, tries: u32) -> bool {
        tries <= self.0
    }
}

impl From<Retries> for u64 {
    fn from(Retries(retries): Retries) -> u64 {
        retries.into()
    }
}
